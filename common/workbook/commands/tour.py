"""tour: build, test and briefly measure every solution."""

import argparse

from workbook import screen, verdict
from workbook.commands.bench import bench, sentence
from workbook.sheets import chapters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> int:
    failed = 0
    for chapter in chapters():
        found = verdict.check(chapter, chapter.solution)
        failed += not found.passed
        print(f"{screen.bold(f'{chapter.number} {chapter.title}')}\n"
              f"  tests    {len(found.steps)} steps: {found.kind}")
        result = None
        if found.passed:
            result = bench(chapter, quick=True, groups=slice(-1, None))
        if result:
            print(f"  measured {sentence(result)}")
    print(screen.bold("Read on in solutions/, or do it yourself: ./workbook"))
    return 1 if failed else 0
