"""The files of sign-ins are for the user alone, and a check of the config says where they are not."""

import os
from pathlib import Path

import pytest

from pflow_mcp_plugin.config import locations
from pflow_mcp_plugin.config.locations import pin_folder, sign_in_folder, tool_folder
from pflow_mcp_plugin.contract import Paths
from pflow_mcp_plugin.storage import write_atomic


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(config=tmp_path, data=tmp_path, state=tmp_path, cache=tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="permissions of Unix")
def test_a_file_that_others_may_read_is_a_warning(paths):
    file = sign_in_folder(paths) / "1-1.json"
    write_atomic(file, b"{}")
    assert [*locations.check_stored(paths)] == []
    file.chmod(0o644)
    (problem,) = locations.check_stored(paths)
    assert problem.message == f"{file} holds tokens and can be read by others"
    assert (problem.severity, problem.suggestion) == ("warning", f"chmod 600 {file}")


def test_a_folder_that_cannot_be_read_is_a_warning(paths):
    sign_in_folder(paths).write_text("")
    (problem,) = locations.check_stored(paths)
    assert (problem.severity, str(sign_in_folder(paths)) in problem.message) == ("warning", True)


@pytest.mark.skipif(os.name == "nt", reason="permissions of Unix")
def test_row_60_what_others_may_write_is_an_error_once_for_each_file_or_folder(paths):
    for folder in (pin_folder(paths), tool_folder(paths), sign_in_folder(paths)):
        for name in ("a.json", "b.json"):
            write_atomic(folder / name, b"{}")
    (pin_folder(paths) / "a.json").chmod(0o620)
    (pin_folder(paths) / "b.json").chmod(0o666)
    tool_folder(paths).chmod(0o777)
    found = [*locations.check_stored(paths)]
    assert {problem.severity for problem in found} == {"error"}
    named = [Path(problem.source) for problem in found]
    if os.geteuid() == 0:  # whose private group may write
        assert named == [pin_folder(paths) / "b.json", tool_folder(paths)]
    assert set(named) >= {pin_folder(paths) / "b.json", tool_folder(paths)}
    assert "chmod go-w" in found[-1].suggestion
