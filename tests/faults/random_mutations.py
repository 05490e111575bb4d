"""Changes the package at random places, and sees whether the tests notice.

`python tests/faults/random_mutations.py --number 160 --seed 7 --coverage FOLDER` draws changes from all
that are possible, so that each kind has the weight that it has in the code. Each is made in a copy of the
package, against which the tests run that run the changed lines: first those that are quick, then the
programs. The folder keeps which tests run which lines; `line_coverage.py` makes it, once, in half an hour.

It prints a line for each change, and exits 0 whatever lived: some changes change no behaviour.
"""

import ast
import random
import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
from line_coverage import TestsOfLines, record, within
from mutations import KINDS, Package, Slot
from unguarded import PACKAGE, copy_package, exit_code, last_line

AT_ONCE = 2
BUDGETS = ((2, 40), (60, 150))
"""Which tests run, by their seconds, and for how long: first some, then others if the change lives."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)


@attrs.frozen
class Change:
    """A possible change: one kind at one position.

    Attributes:
        path: The file, below the package.
        kind: The position of its kind in `KINDS`.
        slot: Where it is made, among the positions in the file.
        line: The line.
        shown: The changed line, and what is done to it.
    """

    path: Path
    kind: int
    slot: int
    line: int
    shown: str

    def tree(self, package: Package) -> ast.Module:
        """Return the syntax tree of the file with the change made."""
        tree = package.tree(self.path)
        slot = _slots(tree)[self.slot]
        slot.put(KINDS[self.kind].changed(slot.node))
        return ast.fix_missing_locations(tree)


def changes(package: Package, path: Path) -> Iterator[Change]:
    """Yield all changes that are possible in a file."""
    tree, source = package.tree(path), (PACKAGE / path).read_text(encoding="utf-8").splitlines()
    for index, slot in enumerate(_slots(tree)):
        for number, kind in enumerate(KINDS):
            if kind.fits(slot):
                line = slot.node.lineno
                shown = f"{path}:{line}: {kind.description}: {source[line - 1].strip()}"
                yield Change(path, number, index, line, shown)


def _slots(tree: ast.Module) -> list[Slot]:
    """Return all positions, except in annotations and in what only type checkers read."""
    unread = {id(inner) for node in ast.walk(tree) for each in _unread(node) for inner in ast.walk(each)}
    return [slot for slot in Slot.below(tree) if id(slot.node) not in unread]


def _unread(node: ast.AST) -> list[ast.AST]:
    parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        parts += [node.test, *node.body]
    return [part for part in parts if part is not None]


def relevant_lines(package: Package, change: Change) -> dict[Path, set[int]]:
    """Return the lines that run where a change matters, by file.

    That is the statement itself in a function, and the whole function for what stands in its head. What runs
    at import matters where the class or constant is used.
    """
    tree = package.tree(change.path)
    around = [tree, *(each for each in ast.walk(tree) if _holds(each, change.line))]
    inner = next((each for each in reversed(around) if isinstance(each, _SCOPES)), tree)
    if isinstance(inner, _FUNCTIONS):
        in_body = change.line >= inner.body[0].lineno
        return {
            change.path: {around[-1].lineno} if in_body else set(range(inner.lineno, inner.end_lineno + 1))
        }
    named = inner if isinstance(inner, ast.ClassDef) else around[-1]
    names = {named.name} if isinstance(named, ast.ClassDef) else set(_assigned(named))
    used = re.compile(rf"\b(?:{'|'.join(map(re.escape, names)) or '(?!)'})\b")
    texts = {path: (PACKAGE / path).read_text(encoding="utf-8").splitlines() for path in package.paths}
    return {
        path: {number for number, line in enumerate(lines, 1) if used.search(line)}
        | _span(named, path, change)
        for path, lines in texts.items()
    }


def _holds(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.stmt):
        return False
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    return first <= line <= (node.end_lineno or first)


def _span(node: ast.AST, path: Path, change: Change) -> set[int]:
    inside = path == change.path and isinstance(node, ast.ClassDef)
    return set(range(node.lineno, node.end_lineno + 1)) if inside else set()


def _assigned(node: ast.AST) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return (target.id for target in targets if isinstance(target, ast.Name))


def draw(package: Package, paths: Sequence[Path], number: int, seed: int) -> list[Change]:
    """Return changes drawn from all that are possible in some files."""
    possible = [change for path in paths for change in changes(package, path)]
    return random.Random(seed).sample(possible, number)


class Trial:
    """Tries changes against the tests that run the changed lines."""

    def __init__(self, package: Package, coverage: TestsOfLines) -> None:
        self._package = package
        self._coverage = coverage

    def lives(self, change: Change) -> bool:
        """Run the tests against a change; print how that went, and return whether they all passed."""
        started = time.monotonic()
        tests = self._coverage.tests(relevant_lines(self._package, change), near=change.path)
        tests = tests or self._coverage.tests({change.path: None}, near=change.path)
        how = ""  # or what noticed
        for most, budget in BUDGETS:
            chosen = within(budget, {test: seconds for test, seconds in tests.items() if seconds <= most})
            tests = {test: seconds for test, seconds in tests.items() if test not in chosen}
            how = how or (self._killed(change, chosen, budget) if chosen else "")
        seconds = time.monotonic() - started
        print(f"{'killed' if how else 'LIVES '} {change.shown} ({seconds:.0f} s)\n       {how}", flush=True)
        return not how

    def _killed(self, change: Change, tests: list[str], budget: float) -> str:
        """Return which test noticed, empty if none did."""
        code, name = self._run(change, tests, budget)
        while name:
            # A test that passes now, or fails without the change too, tells nothing.
            if self._run(change, [name], budget)[0] and not self._run(change, [name], budget, made=False)[0]:
                return name
            tests = [each for each in tests if each != name]
            code, name = self._run(change, tests, budget) if tests else (0, "")
        if code == 0 or self._run(change, tests, budget, made=False)[0] != 0:
            return ""
        return "did not end in time" if code is None else f"pytest exited {code}"

    def _run(
        self, change: Change, tests: list[str], budget: float, *, made: bool = True
    ) -> tuple[int | None, str]:
        """Run tests with or without a change; return the exit code, and the test that failed if one did."""
        with TemporaryDirectory(prefix="mutation-") as name:
            folder = Path(name)
            copy_package(folder)
            tree = change.tree(self._package) if made else self._package.tree(change.path)
            (folder / PACKAGE.name / change.path).write_text(ast.unparse(tree), encoding="utf-8")
            listed = folder / "tests"
            listed.write_text("\n".join(f"{PACKAGE.parent}/{test}" for test in tests), encoding="utf-8")
            code = exit_code([f"@{listed}"], folder, 60 + 4 * budget)
            failed = last_line(folder, "FAILED") or last_line(folder, "ERROR")
        return code, next((test for test in tests if f"{failed} ".startswith(f"{test} ")), "")


def main() -> int:
    """Draw changes, try them, and say how many lived; return the exit code."""
    parser = ArgumentParser(description="Change the package at random places, and see whether tests notice.")
    parser.add_argument("--number", type=int, default=160, help="how many changes")
    parser.add_argument("--seed", type=int, default=0, help="the same seed draws the same changes")
    parser.add_argument("--coverage", type=Path, required=True, help="which tests run which lines")
    parser.add_argument("--only", default="*", help="a pattern that the files match, below the package")
    parser.add_argument(
        "--except", nargs="*", dest="left_out", default=(), help="such patterns of files to leave out"
    )
    options = parser.parse_args()
    if not options.coverage.exists():
        record(options.coverage, ["-n", str(AT_ONCE), "--ignore=tests/plugins"])
    package = Package(PACKAGE)
    paths = [
        path
        for path in package.paths
        if path.match(options.only) and not any(map(path.match, options.left_out))
    ]
    drawn = draw(package, paths, options.number, options.seed)
    trial = Trial(package, TestsOfLines(options.coverage))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        tried = zip(drawn, threads.map(trial.lives, drawn), strict=True)
        lived = [change.shown for change, lives in tried if lives]
    noticed = len(drawn) - len(lived)
    print(
        f"\n{noticed} of {len(drawn)} changes were noticed (seed {options.seed}); these lived:",
        *lived,
        sep="\n",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
