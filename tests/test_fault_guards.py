"""The guards of the matrices can be found and taken out.

Checked here, in seconds, so that whoever renames a symbol learns of it before the long run of
`tox -e unguarded`.
"""

import ast
import difflib
import functools
from pathlib import Path

import pytest
from matrices import MATRICES
from mutations import (
    Package,
    always,
    bare,
    call_other,
    constant,
    drop,
    first_argument,
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


@pytest.mark.parametrize(
    ("place", "mutation", "lines"),
    [
        ("Door.open", never("locked"), ["if key is None or (key.old and False):"]),
        ("Door.open", always("old"), ["if key is None or (True and self.locked):"]),
        ("open", drop("opened"), ["pass"]),
        ("open", instead("clamp", code="x = 1\nreturn x"), ["x = 1", "return x"]),
        ("open", bare("clamp"), ["return key.size"]),
        ("open", first_argument("turn", 0), ["turn(0, slowly=True)"]),
        ("open", keyword("slowly", False), ["turn(key, slowly=False)"]),
        ("open", call_other("turn", "slam"), ["slam(key, slowly=True)"]),
        ("open", outside("lock"), ["with __import__('contextlib').nullcontext():"]),
        ("open", uncaught("OSError"), ["except ():"]),
        ("LIMIT", constant(9), ["LIMIT = 9"]),
        ("FAULTS", without_key(1), ["FAULTS = {2: 'two'}"]),
    ],
)
def test_a_mutation_changes_what_is_named_and_nothing_else(tmp_path, place, mutation, lines):
    (tmp_path / "doors.py").write_text(SAMPLE)
    path, tree = Package(tmp_path).mutated(place, mutation)
    old, new = (ast.unparse(each).splitlines() for each in (ast.parse(SAMPLE), tree))
    changes = list(difflib.ndiff(old, new))
    assert path == Path("doors.py")
    assert len([line for line in changes if line.startswith("- ")]) == 1
    assert [line[2:].strip() for line in changes if line.startswith("+ ")] == lines


@pytest.mark.parametrize(
    ("place", "mutation", "message"),
    [
        ("Door.shut", drop("opened"), "Door.shut: not in the package"),
        ("oor.open", drop("opened"), "oor.open: not in the package"),
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
    (tmp_path / "back.py").write_text(SAMPLE)
    with pytest.raises(LookupError, match=r"fits 2 times in back\.py, doors\.py"):
        Package(tmp_path).mutated("Door.open", drop("opened"))
