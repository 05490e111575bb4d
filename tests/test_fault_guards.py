"""The guards of the matrices can be found and taken out.

Checked here, in seconds, so that whoever renames a symbol learns of it before the long run of
`tox -e unguarded`.
"""

import ast
import difflib
import functools
import inspect
from pathlib import Path

import mutations
import pytest
import random_mutations
from matrices import MATRICES
from mutations import (
    KINDS,
    Package,
    Slot,
    always,
    bare,
    call_other,
    constant,
    drop,
    first_argument,
    gives,
    instead,
    keyword,
    never,
    outside,
    uncaught,
    without_key,
)

PACKAGE = Path(__file__).parents[1] / "pflow_mcp_plugin"
SAMPLE = """
LIMIT = 5
FAULTS = {1: "one", 2: "two"}

class Door:
    def open(self, key):
        if key is None or (key.old and self.locked):
            raise ValueError("no such key")
        with self.lock:
            self.opened += 1
        try:
            turn(key, slowly=True)
        except (OSError, ValueError):
            close(self)
        return clamp(key.size)
"""


@pytest.fixture(name="package", scope="module")
def _package():
    return Package(PACKAGE)


@pytest.fixture(name="before", scope="module")
def _before(package):
    return functools.cache(lambda path: ast.dump(package.tree(path)))


@pytest.mark.parametrize(
    "guard",
    [
        pytest.param(each, id=f"{name}-{each.row}-{each.place}")
        for name in MATRICES
        for each in MATRICES[name].guards
    ],
)
def test_a_guard_is_found_once_and_taking_it_out_changes_the_syntax_tree(package, before, guard):
    path, tree = package.mutated(guard.place, guard.mutation)
    compile(tree, path, "exec")
    assert ast.dump(tree) != before(path)


@pytest.fixture(name="changed")
def _changed(tmp_path):
    """Changes the sample; returns how many lines that took, and what stands there now."""

    def changed(place, mutation):
        (tmp_path / "doors.py").write_text(SAMPLE)
        _, tree = Package(tmp_path).mutated(place, mutation)
        before = ast.unparse(ast.parse(SAMPLE)).splitlines()
        lines = list(difflib.ndiff(before, ast.unparse(tree).splitlines()))
        removed = [line for line in lines if line.startswith("- ")]
        return len(removed), [line[2:].strip() for line in lines if line.startswith("+ ")]

    return changed


CHANGES = [
    (never, "Door.open", never("locked"), ["if key is None or (key.old and False):"]),
    (never, "Door.open", never("old", "locked"), ["if key is None or False:"]),
    (always, "Door.open", always("old"), ["if key is None or (True and self.locked):"]),
    (drop, "open", drop("opened"), ["pass"]),
    (instead, "open", instead("clamp", code="x = 1\nreturn x"), ["x = 1", "return x"]),
    (bare, "open", bare("clamp"), ["return key.size"]),
    (gives, "open", gives("clamp", None), ["return None"]),
    (first_argument, "open", first_argument("turn", 0), ["turn(0, slowly=True)"]),
    (keyword, "open", keyword("slowly", False), ["turn(key, slowly=False)"]),
    (call_other, "open", call_other("turn", "slam"), ["slam(key, slowly=True)"]),
    (outside, "open", outside("lock"), ["with __import__('contextlib').nullcontext():"]),
    (uncaught, "open", uncaught("OSError"), ["except ():"]),
    (constant, "LIMIT", constant(9), ["LIMIT = 9"]),
    (without_key, "FAULTS", without_key(1), ["FAULTS = {2: 'two'}"]),
]


@pytest.mark.parametrize(("place", "mutation", "lines"), [case[1:] for case in CHANGES])
def test_a_mutation_changes_what_is_named_and_nothing_else(changed, place, mutation, lines):
    assert changed(place, mutation) == (1, lines)


def test_every_kind_of_mutation_has_a_test():
    kinds = {
        function for name, function in inspect.getmembers(mutations, inspect.isfunction) if name[0] != "_"
    }
    assert {case[0] for case in CHANGES} == kinds


@pytest.mark.parametrize("file", ["doors.py", "house/front.py", "house/door/__init__.py"])
def test_a_place_is_found_whichever_module_defines_it(tmp_path, file):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SAMPLE)
    assert Package(tmp_path).mutated("Door.open", drop("opened"))[0] == Path(file)


@pytest.mark.parametrize(
    ("place", "mutation", "message"),
    [
        ("Door.shut", drop("opened"), "Door.shut: not in the package"),
        ("oor.open", drop("opened"), "oor.open: not in the package"),
        ("Door.open", drop("closed"), "Door.open: drop closed: fits 0 times in doors.py"),
        ("Door.open", drop("key"), "Door.open: drop key: fits 2 times in doors.py"),
    ],
)
def test_a_guard_that_is_not_found_once_is_told_with_the_files_that_were_looked_at(
    tmp_path, place, mutation, message
):
    (tmp_path / "doors.py").write_text(SAMPLE)
    with pytest.raises(LookupError) as failure:
        Package(tmp_path).mutated(place, mutation)
    assert str(failure.value) == message


def test_a_node_that_fits_in_two_modules_is_refused(tmp_path):
    for name in ("front.py", "back.py"):
        (tmp_path / name).write_text(SAMPLE)
    with pytest.raises(LookupError, match=r"fits 2 times in back\.py, front\.py"):
        Package(tmp_path).mutated("Door.open", drop("opened"))


PIECES = {
    "opposite comparison": ("x = a == b", ["x = a != b"]),
    "bound included or excluded": ("x = a <= b < c", ["x = a < b < c"]),
    "and / or swapped": ("x = a and b", ["x = a or b"]),
    "not removed": ("x = not a", ["x = a"]),
    "branches swapped": ("x = a if b() else c", ["x = a if not b() else c"]),
    "number off by one": ("x = f(3, True, '3')", ["x = f(4, True, '3')"]),
    "true / false swapped": ("def f(x=False): g(1)", ["def f(x=True):\n    g(1)"]),
    "returns None": ("def f(x):\n    return x", ["def f(x):\n    return None"]),
    "statement left out": ("a.b = 1\nc = 2\nd()", ["pass\nc = 2\nd()", "a.b = 1\nc = 2\npass"]),
    "raise left out": ("if a: raise b", ["if a:\n    pass"]),
    "argument left out": ("f(a, b=c, d=1)", ["f(a, d=1)"]),
    "+ / - swapped": ("x = a + b", ["x = a - b"]),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.description)
def test_a_kind_of_change_is_made_wherever_it_fits_and_nowhere_else(kind):
    piece, expected = PIECES[kind.description]
    found = []
    for index in range(len(list(Slot.below(ast.parse(piece))))):
        tree = ast.parse(piece)
        slot = list(Slot.below(tree))[index]
        if kind.fits(slot):
            slot.put(kind.changed(slot.node))
            found.append(ast.unparse(ast.fix_missing_locations(tree)))
    assert found == expected


def test_changes_that_are_drawn_compile_and_change_their_file_and_the_seed_draws_them_again(package, before):
    paths = [path for path in package.paths if path.parts[0] in ("naming.py", "storage", "redaction")]
    drawn = random_mutations.draw(package, paths, 40, seed=1)
    assert drawn == random_mutations.draw(package, paths, 40, seed=1)
    assert drawn != random_mutations.draw(package, paths, 40, seed=2)
    for change in drawn:
        tree = change.tree(package)
        compile(tree, change.path, "exec")
        assert ast.dump(tree) != before(change.path)
        assert f"{change.path}:{change.line}: " in change.shown


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("        if key is None", {7}),
        ("    def open(self, key, slowly=True)", {6, 7, 8, 9}),
        ("LIMIT = 5", {1, 8}),
        ("    locked = False", {3, 4, 5, 6, 7, 8, 9, 11}),
    ],
)
def test_a_change_matters_where_its_line_runs_or_where_what_it_defines_is_used(
    tmp_path, monkeypatch, text, lines
):
    door = [
        "LIMIT = 5",
        "",
        "class Door:",
        "    locked = False",
        "",
        "    def open(self, key, slowly=True):",
        "        if key is None:",
        "            raise ValueError(LIMIT)",
        "        turn(key)",
        "",
        "door = Door()",
    ]
    (tmp_path / "doors.py").write_text("\n".join(door))
    monkeypatch.setattr(random_mutations, "PACKAGE", tmp_path)
    package = Package(tmp_path)
    number = next(number for number, line in enumerate(door, 1) if line.startswith(text))
    change = next(each for each in random_mutations.changes(package, Path("doors.py")) if each.line == number)
    assert random_mutations.relevant_lines(package, change) == {Path("doors.py"): lines}
