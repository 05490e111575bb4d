from pflow_mcp_plugin.catalog import tool_catalog


def test_a_failure_is_kept_until_it_is_forgotten(tmp_path):
    folder = tmp_path / "servers"
    assert tool_catalog.read_failure(folder, "clock") == ""
    tool_catalog.forget_failure(folder, "clock")
    tool_catalog.keep_failure(folder, "clock", "Command not found: clöck")
    assert tool_catalog.read_failure(folder, "clock") == "Command not found: clöck"
    assert tool_catalog.read_failure(folder, "other") == ""
    tool_catalog.forget_failure(folder, "clock")
    assert tool_catalog.read_failure(folder, "clock") == ""


def test_a_folder_that_cannot_be_written_does_not_fail_the_sync(tmp_path):
    folder = tmp_path / "file"
    folder.write_text("")
    tool_catalog.keep_failure(folder, "clock", "Command not found")
    assert tool_catalog.read_failure(folder, "clock") == ""
