"""The tool behind ./workbook. Start it by that script, which sets it up."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import screen
import verdict as verdicts
from workspace import (BUILD, MINE, ROOT, CannotRun, Chapter, chapters,
                       find_chapter, open_chapter, source_files, torch_root)


def is_done(chapter: Chapter) -> bool:
    steps, changed = verdicts.last(chapter)
    return not changed and all(state == "pass" for state in steps.values())


def current_chapter() -> Chapter | None:
    """The first chapter that is not known to pass; none if all do."""
    return next((c for c in chapters()
                 if not (c.mine.exists() and is_done(c))), None)


def say_next(chapter: Chapter | None) -> None:
    """The step to do: the first that did not pass when it was last checked."""
    if chapter is None:
        print(screen.bold("All chapters pass. Compare: ./workbook tour"))
        return
    steps, _ = verdicts.last(chapter)
    step = chapter.step(next((id for id, state in steps.items()
                              if state != "pass"), chapter.steps[-1].id))
    file, line = verdicts.place_of_step(chapter, chapter.mine, step.id)
    sheet = f"chapters/{chapter.name}/README.md"
    print(f"\n{screen.bold(f'Step {step.id} {step.title}')} "
          f"({step.minutes} minutes)\n"
          f"  read {sheet}:{_sheet_line(chapter, step.id)}")
    print(screen.bold(f"Edit {os.path.relpath(file, ROOT)}:{line}, "
                      f"then run ./workbook check"))


def _sheet_line(chapter: Chapter, id: str) -> int:
    lines = (chapter.starter / "README.md").read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1)
                if line.startswith(f"## {id} "))


# --- commands ------------------------------------------------------------------


def start(arguments) -> int:
    """First: the solution of chapter 01 is tested and measured. Then, and
    each later time: the step to do; on a terminal it is watched."""
    import measure
    chapter = current_chapter()
    if not MINE.exists():
        print(screen.bold("Chapter 01's solution, on this machine:"))
        solution = chapters()[0]
        verdict = verdicts.check(solution, solution.solution)
        if verdict["class"] != "pass":
            screen.show_verdict(solution, verdict, "run ./workbook check 01 "
                                "--impl solutions/" + solution.name)
            return 1
        print(f"  tests    all {len(verdict['steps'])} steps pass, under "
              "AddressSanitizer, UBSan and LeakSanitizer")
        result = measure.bench(solution, quick=True)
        print(f"  measured {measure.sentence(result)}")
        print("\nNow yours. Your copy of the starter is in "
              f"my/{chapter.name}; break it as you like.")
    if chapter is not None:
        open_chapter(chapter)
        if sys.stdin.isatty() and sys.stdout.isatty():
            return watch(chapter)
    say_next(chapter)
    return 0


def watch(chapter: Chapter) -> int:
    """Checks at each save, until Ctrl-C. Looks at the files' times, which also
    works on network folders and in virtual machines."""
    say_next(chapter)
    seen = _times(chapter) if not verdicts.last(chapter)[1] else None
    try:
        print("Watching: save the file for a verdict, Ctrl-C to leave.")
        while chapter is not None:
            time.sleep(0.1)
            now = _times(chapter)
            if now == seen:
                continue
            seen = now
            print(f"\n-- {time.strftime('%H:%M:%S')} checking "
                  f"{chapter.number} " + "-" * 40)
            verdict = verdicts.check(chapter, chapter.mine)
            screen.show_verdict(chapter, verdict, "save it")
            if verdict["class"] == "pass":
                chapter = current_chapter()
                if chapter is not None:
                    open_chapter(chapter)
                    seen = _times(chapter)
                say_next(chapter)
    except KeyboardInterrupt:
        print("\nYour work is in my/. Go on with: ./workbook")
    return 0


def _times(chapter: Chapter) -> dict:
    times = {}
    for path in source_files(chapter.mine):
        try:
            times[path] = path.stat().st_mtime_ns
        except FileNotFoundError:
            pass  # an editor that saves by renaming
    return times


def check(arguments) -> int:
    number, _, step = (arguments.what or "").partition(".")
    chapter = find_chapter(number.zfill(2)) if number else \
        current_chapter() or chapters()[-1]
    step = chapter.step(f"{chapter.number}.{step}") if step else None
    words = ["./workbook check"] + ([arguments.what] if arguments.what else [])
    if arguments.impl:
        if not number:
            raise CannotRun("--impl needs a chapter: "
                            "./workbook check 01 --impl DIR")
        folder = Path(arguments.impl)
        words.append(f"--impl {arguments.impl}")
    else:
        open_chapter(chapter)
        folder = chapter.mine
    verdict = verdicts.check(chapter, folder, arguments.seed)
    passed = verdict["class"] == "pass"
    if step and not passed:  # enough that this step and those before it pass
        passed = all(verdict["steps"][s.id] == "pass"
                     for s in chapter.steps if s.id <= step.id)
    if arguments.json:
        print(json.dumps({k: v for k, v in verdict.items() if k != "key"},
                         indent=2))
        return 0 if passed else 1
    if step and passed:
        print(screen.bold(screen.paint(f"{step.id} {step.title}: pass", "32")))
    if not (step and passed and arguments.impl):
        screen.show_verdict(chapter, verdict, "run " + " ".join(words))
    if verdict["class"] == "pass" and not arguments.impl:
        following = current_chapter()
        if following is not None:
            open_chapter(following)
        say_next(following)
    return 0 if passed else 1


def list_chapters(arguments) -> int:
    for chapter in chapters():
        steps, changed = verdicts.last(chapter) if chapter.mine.exists() \
            else ({}, False)
        done = sum(state == "pass" for state in steps.values())
        bar = "#" * done + "." * (len(chapter.steps) - done)
        print(f"{chapter.number} {chapter.title:<28} {chapter.minutes:>3} min  "
              f"[{bar}]" + ("  changed since its last check" if changed else ""))
    chapter = current_chapter()
    if chapter is None or chapter.mine.exists():
        say_next(chapter)
    else:
        print(screen.bold("Start with ./workbook"))
    return 0


def tour(arguments) -> int:
    """Every solution built, tested under sanitizers and briefly measured."""
    import measure
    failed = 0
    for chapter in chapters():
        verdict = verdicts.check(chapter, chapter.solution)
        passed = verdict["class"] == "pass"
        failed += not passed
        print(f"{screen.bold(f'{chapter.number} {chapter.title}')}\n"
              f"  tests    {len(verdict['steps'])} steps: {verdict['class']}")
        result = measure.bench(chapter, quick=True) if passed else None
        if result:
            print(f"  measured {measure.sentence(result)}")
    print(screen.bold("Read on in solutions/, or do it yourself: ./workbook"))
    return 1 if failed else 0


def bench(arguments) -> int:
    import measure
    numbers = [arguments.chapter] if arguments.chapter else \
        [c.number for c in chapters()]
    for number in numbers:
        chapter = find_chapter(number)
        result = measure.bench(chapter, quick=arguments.quick,
                               yours=arguments.yours, json_file=arguments.json)
        if result is None:
            print(f"{chapter.number} {chapter.title}: has no benchmark")
        else:
            print(result["table"].replace("  solution ", "  yours    ")
                  if arguments.yours else result["table"], end="")
    return 0


def test(arguments) -> int:
    import suite
    return suite.run_all(full=arguments.full)


def matrix(arguments) -> int:
    import subprocess
    return subprocess.call(
        [sys.executable, ROOT / "common/matrix", *arguments.versions,
         *(["--json", arguments.json] if arguments.json else [])])


def schemas(arguments) -> int:
    import subprocess
    return subprocess.call(
        [sys.executable, ROOT / "common/schemas", arguments.library,
         *(["--torch", *arguments.torch] if arguments.torch else [])])


def docs(arguments) -> int:
    import subprocess
    return subprocess.call([sys.executable, ROOT / "docs/build.py",
                            *(["--open"] if arguments.open else [])])


def doctor(arguments) -> int:
    import diagnosis
    return diagnosis.report()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./workbook",
        description="The LibTorch Stable ABI Workbook. Without a command: sets "
                    "up what is missing and opens the next step.",
        epilog="exit status: 0 passed, 1 failed, 2 could not run")
    parser.set_defaults(run=start)
    commands = parser.add_subparsers(metavar="COMMAND")

    def add(name, function, help):
        command = commands.add_parser(name, help=help, description=help)
        command.set_defaults(run=function)
        return command

    sub = add("check", check, "build and test a chapter, or one of its steps")
    sub.add_argument("what", nargs="?", metavar="NN or NN.k",
                     help="default: the chapter you are at")
    sub.add_argument("--impl", metavar="DIR",
                     help="this implementation instead of my/NN_name")
    sub.add_argument("--seed", type=int, help="of the tests' random shapes")
    sub.add_argument("--json", action="store_true",
                     help="print the verdict as JSON")
    add("list", list_chapters, "the chapters, and how far you are")
    add("tour", tour, "build, test and briefly measure every solution")
    sub = add("bench", bench, "measure a solution against its floor and peers")
    sub.add_argument("chapter", nargs="?", metavar="NN", help="default: all")
    sub.add_argument("--yours", action="store_true",
                     help="measure my/NN_name instead of the solution")
    sub.add_argument("--quick", action="store_true", help="seconds, not a minute")
    sub.add_argument("--json", metavar="FILE", help="write the result there")
    sub = add("matrix", matrix, "every solution on every libtorch since 2.10")
    sub.add_argument("versions", nargs="*", metavar="VERSION",
                     help="of torch, as 2.10.0; default: one of each minor")
    sub.add_argument("--json", metavar="FILE", help="write the result there")
    sub = add("schemas", schemas, "a library's calls by name, against libtorch")
    sub.add_argument("library", metavar="LIBRARY",
                     help="a shared library that uses call_op.h, or its folder")
    sub.add_argument("--torch", nargs="+", metavar="VERSION",
                     help="as 2.10.0, fetched if need be, or all")
    sub = add("test", test, "the workbook's own tests")
    sub.add_argument("--full", action="store_true",
                     help="with ladders, mutants, documentation, lint and "
                          "the matrix")
    sub = add("docs", docs, "the documentation, its links checked")
    sub.add_argument("--open", action="store_true", help="show it in a browser")
    add("doctor", doctor, "what this machine has, with verdicts")

    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # in order with stderr
    try:
        torch_root()
        BUILD.mkdir(exist_ok=True)
        return arguments.run(arguments)
    except CannotRun as error:
        print(f"workbook: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except OSError as error:  # a full disk, a folder without permission
        print(f"workbook: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
