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
from matrices import MATRICES
from mutations import (
    Package,
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
