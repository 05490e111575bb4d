"""Faults 57 to 64: what goes wrong with the files that pflow keeps."""

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import store_kinds

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.config.locations import tool_folder
from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.host.cli.command_line import main
from pflow_mcp_plugin.storage import CorruptFile, StoreError

NAMES = ["config", "settings", "registry", "tools", "library"]
REFUSED = ["config", "settings", "library"]
REBUILT = ["registry", "tools"]
PROGRAM = [sys.executable, str(Path(__file__).with_name("store_kinds.py"))]

each = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def reports() -> list[Problem]:
    """What the stores told of."""
    return []


@pytest.fixture
def kinds(no_leftovers, pflow_home, reports) -> dict[str, store_kinds.StoreKind]:
    return store_kinds.kinds(storage.default_paths(), reports.append)


def written(kinds: dict[str, store_kinds.StoreKind], name: str) -> tuple[store_kinds.StoreKind, Path]:
    """Make a change in a store; return the store and the file that the change is in."""
    kind = kinds[name]
    kind.change("one")
    return kind, kind.file("one")


def temporary(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".tmp")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# A full load on one store, and a light one on the others, which write by the same means; the registry is
# a store of the kind of the settings.
@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "changes"), [("config", 40), ("settings", 8), ("tools", 8), ("library", 8)])
def test_row_57_no_change_of_eight_writers_at_once_is_lost(pflow_home, kinds, name, changes):
    program = [*PROGRAM, name, "write"]
    writers = [subprocess.Popen([*program, f"w{number}x", str(changes)]) for number in range(8)]
    assert [writer.wait(100) for writer in writers] == [0] * 8
    assert kinds[name].keys() == {f"w{number}x{change}" for number in range(8) for change in range(changes)}
    assert temporary(pflow_home) == []


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "kills"), [("config", 60), ("settings", 15), ("tools", 15), ("library", 15)]
)
def test_row_58_a_writer_that_is_killed_corrupts_nothing_and_loses_nothing(pflow_home, kinds, name, kills):
    driver = subprocess.run([*PROGRAM, name, "kill", str(kills)], capture_output=True, text=True, check=True)
    kinds[name].change("last")
    acknowledged = set(driver.stdout.split())
    assert len(acknowledged) >= kills
    assert acknowledged <= kinds[name].keys()
    assert list(pflow_home.rglob("*.corrupt-*")) == []
    assert temporary(kinds[name].file("last").parent) == []


os_open = os.open


class FullDisk:
    """Makes the Nth call of one function of `os` fail; opening a file to read it does not count."""

    def __init__(self, monkeypatch, function: str, failing: int) -> None:
        self.failed = False
        self._left = failing
        self._real = getattr(os, function)
        monkeypatch.setattr(os, function, self._call)

    def _call(self, *args, **options):
        if self._real is os_open and not args[1] & (os.O_WRONLY | os.O_RDWR):
            return self._real(*args, **options)
        self._left -= 1
        if self._left == 0:
            self.failed = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._real(*args, **options)


@pytest.mark.parametrize("function", ["open", "write", "fsync", "replace", "chmod"])
@each
def test_row_59_a_full_disk_names_the_file_and_leaves_the_old_or_the_new(
    monkeypatch, pflow_home, kinds, name, function
):
    kind, refused = kinds[name], 0
    for failing in range(1, 50):
        kind.change("same")
        path = kind.file("same")
        before, key = path.read_bytes(), "same" if name in ("tools", "library") else f"k{failing}"
        with monkeypatch.context() as patch:
            disk = FullDisk(patch, function, failing)
            error = _failure_of(kind, key)
        if not disk.failed:
            break
        if error is not None:
            refused += 1
            assert type(error) is StoreError
            assert error.message.startswith(f"{error.path}: ")
            assert error.path.is_relative_to(pflow_home)
            assert error.details == {"path": str(error.path)}
            assert "no space left" in error.message
            assert path.read_bytes() == before
        assert temporary(pflow_home) == []
    assert refused, f"os.{function} was never missed"


def _failure_of(kind: store_kinds.StoreKind, key: str) -> PflowError | None:
    try:
        kind.change(key)
    except StoreError as error:
        return error
    return None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_row_59_a_command_that_cannot_write_exits_with_a_failure_and_says_which_file(
    monkeypatch, pflow_home, capsys, code
):
    assert main(["mcp", "add", "one", "--", "true"]) == 0
    path = pflow_home / "config" / "mcp-servers.toml"
    before = path.read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        assert main(["mcp", "add", "two", "--", "true"]) != 0
    told = capsys.readouterr().err
    assert str(path) in told
    assert "Traceback" not in told
    assert path.read_bytes() == before


_BROKEN = b'{"a": 1,\n oops'


@pytest.mark.parametrize("name", REFUSED)
def test_row_60_what_cannot_be_rebuilt_is_refused_with_its_place_and_not_written_over(kinds, name):
    kind, path = written(kinds, name)
    path.write_bytes(_BROKEN)
    with pytest.raises(PflowError) as caught:
        kind.keys()
    error = caught.value
    assert type(error) is CorruptFile
    assert error.message.startswith(str(path))
    assert ("line 1, column 1" if name == "config" else "line 2, column 2") in error.message
    assert error.details["path"] == str(path)
    assert error.details["line"] == error.details["column"] == (1 if name == "config" else 2)
    assert error.suggestions
    with pytest.raises(CorruptFile) as unwritten:
        kind.change("one")
    assert unwritten.value.message == error.message
    assert path.read_bytes() == _BROKEN


@pytest.mark.parametrize("name", REBUILT)
def test_row_60_what_can_be_rebuilt_is_backed_up_and_named(kinds, reports, name):
    kind, path = written(kinds, name)
    path.write_bytes(_BROKEN)
    assert kind.keys() == set()
    backup = path.with_name(path.name + ".corrupt-1")
    assert backup.read_bytes() == _BROKEN
    if name == "tools":
        assert Catalog(tool_folder(storage.default_paths())).set_aside("one") == backup
    else:
        assert str(backup) in reports[0].suggestion
    kind.change("one")
    assert kind.keys() == {"one"}


@pytest.mark.parametrize("name", ["settings", "registry", "tools"])
def test_row_61_a_file_of_a_newer_schema_is_not_written(kinds, name):
    kind, path = written(kinds, name)
    content = json.dumps({**json.loads(path.read_bytes()), "schema_version": 99}).encode()
    path.write_bytes(content)
    with pytest.raises(StoreError, match="newer pflow") as caught:
        kind.change("one")
    assert type(caught.value) is StoreError
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.suggestions == ("Upgrade pflow",)
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["settings", "registry"])
def test_row_62_unknown_keys_of_a_store_are_preserved(kinds, name):
    kind, path = written(kinds, name)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "later": {"x": [1]}}), encoding="utf-8")
    kind.change("two")
    assert json.loads(path.read_bytes())["later"] == {"x": [1]}
    assert kind.keys() == {"one", "two"}


def test_row_62_unknown_keys_of_the_config_are_preserved(kinds):
    path = kinds["config"].file("")
    path.parent.mkdir(parents=True)
    path.write_text('[later]\nx = 1\n[mcpServers.one]\ncommand = "a"\nfuture = [1]\n', encoding="utf-8")
    kinds["config"].change("two")
    text = path.read_text(encoding="utf-8")
    assert "[later]" in text
    assert "future = [" in text


@pytest.mark.parametrize("umask", [0o000, 0o777])
@each
def test_row_63_files_and_folders_are_private_under_any_umask(pflow_home, kinds, name, umask):
    before = os.umask(umask)
    try:
        kinds[name].change("one")
    finally:
        os.umask(before)
    path = kinds[name].file("one")
    assert mode(path) == 0o600
    inner = [folder for folder in path.parents if folder.is_relative_to(pflow_home) and folder != pflow_home]
    assert {mode(folder) for folder in inner} == {0o700}


def test_row_63_a_file_that_others_can_read_is_warned_about(kinds, capsys):
    for name in ("config", "settings"):
        kinds[name].change("one")
        kinds[name].file("one").chmod(0o644)
    assert main(["config", "check"]) == 0
    told = "".join(capsys.readouterr())
    assert told.count("can be read by others") == 2


@each
def test_row_64_a_symlinked_file_is_written_through_to_its_target(kinds, tmp_path, name):
    kind, path = written(kinds, name)
    target = tmp_path / "elsewhere"
    path.rename(target)
    path.symlink_to(target)
    before = target.read_bytes()
    key = "one" if name in ("tools", "library") else "two"
    kind.change(key)
    assert path.is_symlink()
    assert target.read_bytes() != before
    assert key in set(kind.keys())
