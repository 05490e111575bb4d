"""Why the last sync of a server failed."""

from __future__ import annotations

from pflow_mcp_plugin.discovery import sync_failures


def test_a_failure_is_kept_until_it_is_forgotten(tmp_path):
    folder = tmp_path / "servers"
    assert sync_failures.read(folder, "clock") == ""
    sync_failures.forget(folder, "clock")
    sync_failures.keep(folder, "clock", "Command not found: clöck")
    assert sync_failures.read(folder, "clock") == "Command not found: clöck"
    assert sync_failures.read(folder, "other") == ""
    sync_failures.forget(folder, "clock")
    assert sync_failures.read(folder, "clock") == ""


def test_a_folder_that_cannot_be_written_does_not_fail_the_sync(tmp_path):
    folder = tmp_path / "file"
    folder.write_text("")
    sync_failures.keep(folder, "clock", "Command not found")
    assert sync_failures.read(folder, "clock") == ""
