import os
from pathlib import Path

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.direct.link_words import file_text


def test_a_tilde_is_the_home_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("at home")
    assert file_text(Path("~/a.txt"), "@~/a.txt") == "at home"


def test_a_descriptor_that_the_shell_opened_is_read():
    reading, writing = os.pipe()
    os.write(writing, b"from a command")
    os.close(writing)
    assert file_text(Path(f"/dev/fd/{reading}"), f"@/dev/fd/{reading}") == "from a command"
    os.close(reading)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nobody", "no such file: "),
        ("folder", " cannot be read: "),
        ("pipe", " cannot be read: "),
        ("bytes", " is not UTF-8 text"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_way_to_write_the_text(tmp_path, name, reason):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(PflowError) as failure:
        file_text(tmp_path / name, f"@{name}")
    assert reason in failure.value.message
    assert str(tmp_path / name) in failure.value.message
    assert failure.value.suggestions == (f"For the text @{name} itself, write @@{name}",)
    assert failure.value.kind == "usage"


def test_a_name_that_no_system_accepts_is_refused():
    with pytest.raises(PflowError):
        file_text(Path("a" * 5000), "@aaa")
    with pytest.raises(PflowError):
        file_text(Path("a\0b"), "@a")
