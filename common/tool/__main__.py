"""The tool behind ./workbook. Start it by that script, which sets it up."""

# ruff: noqa: E402
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C until main

import argparse
import errno
import json
import os
import runpy
import sys
import time
from pathlib import Path

import screen
import verdict as verdicts
from workspace import (BUILD, MINE, ROOT, CannotRun, Chapter, Step, chapters,
                       find_chapter, open_chapter, source_files, torch_root)


def is_done(chapter: Chapter) -> bool:
    steps, changed = verdicts.last(chapter)
    return not changed and all(state == "pass" for state in steps.values())


def current_chapter() -> Chapter | None:
    """The first chapter that is not known to pass; none if all do."""
    return next((c for c in chapters()
                 if not (c.mine.exists() and is_done(c))), None)


def _step_to_do(chapter: Chapter) -> Step:
    """The first that did not pass when it was last checked, else the last."""
    steps, _ = verdicts.last(chapter)
    return chapter.step(next((id for id, state in steps.items()
                              if state != "pass"), chapter.steps[-1].id))


def _chapter_and_step(what: str | None) -> tuple[Chapter, Step | None]:
    """Of "04", "4", "04.2" or nothing, which is where the learner is."""
    number, _, step = (what or "").partition(".")
    chapter = find_chapter(number.zfill(2)) if number else \
        current_chapter() or chapters()[-1]
    return chapter, chapter.step(f"{chapter.number}.{step}") if step else None


def say_next(chapter: Chapter | None) -> None:
    if chapter is None:
        print(screen.bold("All chapters pass. Compare: ./workbook tour"))
        return
    step = _step_to_do(chapter)
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
              f"my/{chapter.name};\nbreak it as you like.")
    if chapter is not None:
        open_chapter(chapter)
        if sys.stdin.isatty() and sys.stdout.isatty():
            return watch(chapter)
    say_next(chapter)
    return 0


def watch(chapter: Chapter) -> int:
    """Checks at each save and obeys keys, until q or Ctrl-C. Looks at the
    files' times, which also works on network folders and in virtual machines."""
    import work
    keys = screen.Keys()
    verdict = None
    seen = _times(chapter) if not verdicts.last(chapter)[1] else None
    try:
        say_next(chapter)
        _say_keys()
        while True:
            key = keys.wait(0.1)
            if key == "q":
                break
            if key in ("n", "p"):
                at = chapters().index(chapter) + (1 if key == "n" else -1)
                chapter = chapters()[at % len(chapters())]
                open_chapter(chapter)
                seen = _times(chapter)
                say_next(chapter)
            elif key == "h":
                work.hint(chapter, _step_to_do(chapter).id)
            elif key == "d":
                work.diff(chapter)
            elif key == "f" and verdict is not None:
                print((ROOT / verdict["log"]).read_text(errors="replace"))
            elif key == "l":
                list_chapters(None)
            elif key:
                _say_keys()
            now = _times(chapter)
            if now == seen and key != "r":
                continue
            seen = now
            print(f"\n-- {time.strftime('%H:%M:%S')} checking "
                  f"{chapter.number} " + "-" * 40)
            try:
                verdict = verdicts.check(chapter, chapter.mine)
            except (CannotRun, OSError) as error:  # the next save may do
                print(f"workbook: {error}")
                continue
            screen.show_verdict(chapter, verdict, "save it")
            if verdict["class"] == "pass":
                following = current_chapter()
                say_next(following)
                if following is not None:
                    chapter = following
                    open_chapter(chapter)
                    seen = _times(chapter)
            _say_keys()
    except KeyboardInterrupt:
        print()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C
        keys.close()
    print("Your work is in my/. Go on with: ./workbook")
    return 0


def _say_keys() -> None:
    done = sum(state == "pass" for c in chapters() if c.mine.exists()
               for state in verdicts.last(c)[0].values())
    print(f"{screen.bar(done, sum(len(c.steps) for c in chapters()))}  save for "
          "a verdict\nkeys: h hint  d diff  f full text  r run  n next  "
          "p previous  l list  q quit")


def _times(chapter: Chapter) -> dict:
    times = {}
    for path in source_files(chapter.mine):
        try:
            times[path] = path.stat().st_mtime_ns
        except FileNotFoundError:
            pass  # an editor that saves by renaming
    return times


def check(arguments) -> int:
    chapter, step = _chapter_and_step(arguments.what)
    words = ["./workbook check"] + ([arguments.what] if arguments.what else [])
    if arguments.impl:
        if not arguments.what:
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
        print(f"{chapter.number} {chapter.title:<28} {chapter.minutes:>3} min  "
              f"{screen.bar(done, len(chapter.steps))}" + ("  changed since its last check" if changed else ""))
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


def script(name: str, words: list[str]) -> int:
    """A part that is a program of its own, with a --help of its own."""
    path = str(ROOT / SCRIPTS[name][0])
    sys.argv = [path, *words]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            raise CannotRun(end.code.removeprefix("workbook: ")) from None
        return end.code or 0
    return 0


def hint(arguments) -> int:
    import work
    chapter, step = _chapter_and_step(arguments.what)
    work.hint(chapter, (step or _step_to_do(chapter)).id)
    return 0


def diff(arguments) -> int:
    import work
    return 1 if work.diff(_chapter_and_step(arguments.chapter)[0]) else 0


def reset(arguments) -> int:
    import work
    work.reset(_chapter_and_step(arguments.chapter)[0])
    return 0


SCRIPTS = {
    "bench": ("common/bench/measure.py",
              "measure a solution against its floor and peers"),
    "new": ("common/new.py", "a project of your own, from a template"),
    "schemas": ("common/schemas", "what a library calls by name, against the "
                "schemas of libtorch"),
    "archive": ("common/workshop/archive.py",
                "all that machines without a network need, in one file"),
    "grade": ("common/workshop/grade.py", "many people's solutions, as a table"),
    "test": ("tests/run.py", "the workbook's own tests; --full: everything"),
    "matrix": ("common/matrix", "every solution on every libtorch since 2.10"),
    "docs": ("docs/build.py", "the documentation, its links checked"),
    "doctor": ("common/doctor.py", "what this machine has, with verdicts"),
}


MANUAL = """\
The LibTorch Stable ABI Workbook.

Without a command: sets up what is missing, shows the solution of chapter 01 at
work, and opens your next step. On a terminal it then watches: each save gets a
verdict, and single keys do the rest."""

EPILOG = """\
Your copies of the starters are in my/, which is yours: nothing there is ever
written over, and reset keeps what was there in my/.backup.

  TORCH_ROOT   a torch folder or an unpacked libtorch, to use that one
  NO_COLOR     no colour on a terminal either

Exit status: 0 passed, 1 failed, 2 could not run (the text says what is missing
and the line that cures it). COMMAND --help says more of a command."""


CURES = {
    errno.ENOSPC: "; free some, a full build needs 2 GiB",
    errno.EROFS: "; copy the workbook to a folder of yours",
    errno.EACCES: "; copy the workbook to a folder of yours",
    errno.ENOENT: "; ./workbook doctor shows what this machine lacks"}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./workbook", description=MANUAL, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
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
    sub = add("hint", hint, "the next hint of a step; the third is its solution")
    sub.add_argument("what", nargs="?", metavar="NN.k",
                     help="default: the step you are at")
    sub = add("diff", diff, "yours against the solution")
    sub.add_argument("chapter", nargs="?", metavar="NN",
                     help="default: the chapter you are at")
    sub = add("reset", reset, "back to the starter; yours is kept as a backup")
    sub.add_argument("chapter", metavar="NN")
    add("tour", tour, "build, test and briefly measure every solution")
    for name, (_, help) in SCRIPTS.items():
        add(name, None, help)

    if sys.argv[1:2] and sys.argv[1] in SCRIPTS:
        arguments = argparse.Namespace(
            run=lambda _: script(sys.argv[1], sys.argv[2:]))
    else:
        arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # in order with stderr
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        torch_root()
        BUILD.mkdir(exist_ok=True)
        return arguments.run(arguments)
    except CannotRun as error:
        print(f"workbook: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("\nworkbook: stopped; nothing is lost", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"workbook: {error.filename}: {error.strerror}" +
              CURES.get(error.errno, ""), file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
