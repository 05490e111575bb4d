import os
import sys
from difflib import get_close_matches

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.direct import direct_run
from pflow_mcp_plugin.host.direct.direct_run import refuse_redirection

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there they work")

WORDS = ["read-file", "--file-path", "a.txt"]


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Check a chain whose output goes to a file; returns the words that were looked up."""

    def checked(name, flags=os.O_APPEND, words=WORDS):
        asked = []
        descriptor = os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT | flags)
        monkeypatch.setattr(direct_run, "_STDOUT", descriptor)
        try:
            note = refuse_redirection(
                words,
                "pflow",
                lambda word: asked.append(word) or word in ("echo", "a b"),
                lambda word: get_close_matches(word, ["echo", "write-file"], 3),
            )
        finally:
            os.close(descriptor)
        return asked, note and note.message

    return checked


def test_output_appended_to_a_file_with_the_name_of_a_node_is_refused(check, tmp_path):
    with pytest.raises(PflowError) as failure:
        check("echo")
    error = failure.value
    assert (error.kind, error.exit_code, error.details) == ("usage", 2, {"file": f"{tmp_path}/echo"})
    assert error.message.endswith(f"it appends the output to the file {tmp_path}/echo")
    assert error.suggestions == (
        "Write: pflow read-file ... then echo ..., or quote it: '>>'",
        f"Remove the file that the shell created: rm {tmp_path}/echo",
        f"If you meant the file: ... | cat >> {tmp_path}/echo",
    )
    (tmp_path / "echo").write_text("kept", encoding="utf-8")  # which is not to be removed then
    with pytest.raises(PflowError) as failure:
        check("echo")
    assert not any("Remove" in step for step in failure.value.suggestions)


def test_the_word_then_is_refused_as_well_and_names_are_quoted(check):
    with pytest.raises(PflowError, match="took `>>`"):
        check("then")
    with pytest.raises(PflowError) as failure:
        check("a b", words=["my node", "--x"])
    assert failure.value.suggestions[0].startswith("Write: pflow 'my node' ... then a b ...")
    assert failure.value.suggestions[2].endswith("/a b'")


def test_other_files_are_left_alone_and_nothing_is_looked_up_without_append(check):
    assert check("notes.txt") == (["notes.txt"], None)
    assert check("echo", flags=0) == ([], None)


def test_a_new_file_that_is_nearly_named_as_a_node_is_refused_and_any_other_noted(check, tmp_path):
    with pytest.raises(PflowError) as failure:
        check("write-fle")
    assert failure.value.suggestions[0].startswith("Write: pflow read-file ... then write-file ...")
    asked, note = check("results")
    assert (asked, str(tmp_path / "results") in note) == (["results"], True)
    for name in ("write-fle", "results"):
        (tmp_path / name).write_text("kept", encoding="utf-8")
        assert check(name) == ([name], None)
    assert check("write-file.txt") == (["write-file.txt"], None)


def test_a_pipe_a_terminal_a_device_and_a_closed_output_are_left_alone(monkeypatch):
    opened = [*os.pipe(), *os.openpty(), os.open(os.devnull, os.O_WRONLY | os.O_APPEND)]

    def look(descriptor):
        monkeypatch.setattr(direct_run, "_STDOUT", descriptor)
        refuse_redirection(WORDS, "pflow", lambda _: pytest.fail("looked up"), list)

    for descriptor in opened[1:]:
        look(descriptor)
    for descriptor in opened:
        os.close(descriptor)
    look(opened[-1])
