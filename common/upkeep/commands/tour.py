"""tour: build, test and briefly measure every solution."""

import argparse

from base.building import build_root
from base.project import BUILD
from base.requirements import install_with_torch
from base.sheets import Chapter, chapters
from learn import screen
from learn.checking.processes import Tests
from learn.commands.bench import bench, sentence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run_tests(chapter: Chapter) -> tuple[bool, str]:
    """Return whether the solution, optimised, passes its steps; and what is said."""
    test = chapter.steps_in_python
    if test.exists():
        install_with_torch("hub")
    else:
        test = BUILD / f"release/tests/{chapter.name}_test"
    build_root("release", [chapter.name, f"{chapter.name}_test"])
    tests = Tests(test, BUILD / "release/solutions" / chapter.name)
    steps = [step.id for step in chapter.steps]
    done = tests.run(steps)
    tests.end()
    if done.status == 0 and done.cases:
        return True, f"{len(steps)} steps: pass"
    wrong = [case.name for case in done.cases or []
             if case.failures or not case.ended]
    return False, f"FAILED: {', '.join(wrong) or done.text.strip()[-300:]}"


def run(arguments: argparse.Namespace) -> int:
    failed = 0
    for chapter in chapters():
        print(screen.bold(f"{chapter.number} {chapter.title}"))
        passed, text = run_tests(chapter)
        print(f"  tests    {text}")
        failed += not passed
        result = bench(chapter, quick=True, groups=slice(-1, None)) \
            if passed else None
        if result:
            print(f"  measured {sentence(result)}")
    print(screen.bold("Read on in solutions/, or do it yourself: ./workbook"))
    return 1 if failed else 0
