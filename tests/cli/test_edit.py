"""`pflow mcp edit`, on a terminal with an editor of the test's own."""

from __future__ import annotations

import shlex
import sys

import pytest
from program_terminal import run_on_terminal

EDITOR = """
import pathlib, sys
versions, file = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[-1])
if len(sys.argv) > 3:
    pathlib.Path(sys.argv[2]).write_text(sys.argv[3])
file.write_text(sorted(versions.glob("*.toml"))[0].read_text())
sorted(versions.glob("*.toml"))[0].unlink()
"""
GOOD = '[mcpServers.clock]\ncommand = "a"\n'
BAD = "[mcpServers.clock]\ncommand = 5\n"


@pytest.fixture
def edited(pflow_home, hosts, tmp_path):
    """Run the command with an editor that writes these texts, one at each start; return the screen.

    `meanwhile` is a file that another program writes at the same time, and its text.
    """

    def edited(*texts, answers=(), meanwhile=()):
        versions, editor = tmp_path / "versions", tmp_path / "editor.py"
        versions.mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (versions / f"{number}.toml").write_text(text, encoding="utf-8")
        editor.write_text(EDITOR, encoding="utf-8")
        command = shlex.join([sys.executable, str(editor), str(versions), *map(str, meanwhile)])
        return run_on_terminal(
            "mcp",
            "edit",
            home=pflow_home,
            answers=dict(answers),
            environment={"VISUAL": command, "EDITOR": "false"},
            started=hosts.append,
        )

    return edited


def test_the_config_is_edited_and_checked(edited, pflow_home):
    screen = edited(GOOD)
    assert screen.exit_code == 0
    assert "Saved" in screen.shown
    assert (pflow_home / "config" / "mcp-servers.toml").read_text() == GOOD
    assert not list((pflow_home / "config").glob("*edited*"))


def test_a_mistake_is_shown_and_can_be_corrected_at_once(edited, pflow_home):
    screen = edited(BAD, GOOD, answers=[("Edit again?", "y")])
    assert screen.exit_code == 0
    assert "mcpServers.clock.command" in screen.shown
    assert (pflow_home / "config" / "mcp-servers.toml").read_text() == GOOD


def test_whoever_leaves_a_mistake_is_told_with_exit_code_2(edited, pflow_home):
    screen = edited(BAD, answers=[("Edit again?", "n")])
    assert screen.exit_code == 2
    assert "has mistakes" in screen.shown
    assert (pflow_home / "config" / "mcp-servers.toml").read_text() == BAD


def test_what_is_not_toml_is_kept_beside_the_config_and_never_saved(edited, pflow_home):
    config = pflow_home / "config" / "mcp-servers.toml"
    config.parent.mkdir(parents=True)
    config.write_text(GOOD)
    screen = edited("[mcpServers.clock\n", answers=[("Edit again?", "n")])
    assert screen.exit_code == 2
    assert "not valid TOML" in screen.shown
    assert config.read_text() == GOOD
    (copy,) = config.parent.glob("mcp-servers.edited-*.toml")
    assert copy.read_text() == "[mcpServers.clock\n"


def test_what_another_program_changed_meanwhile_is_not_overwritten(edited, pflow_home, tmp_path):
    config = pflow_home / "config" / "mcp-servers.toml"
    config.parent.mkdir(parents=True)
    config.write_text(GOOD)
    other = GOOD + '[mcpServers.other]\ncommand = "b"\n'
    screen = edited(GOOD + "# mine\n", meanwhile=(config, other))
    assert screen.exit_code == 2
    assert "Another program changed" in screen.shown
    assert config.read_text() == other
    assert [copy.read_text() for copy in config.parent.glob("*.edited-*")] == [GOOD + "# mine\n"]


def test_an_editor_that_changes_nothing_leaves_nothing(edited, pflow_home):
    screen = edited("")
    assert (screen.exit_code, "Nothing was changed" in screen.shown) == (0, True)
    assert not list((pflow_home / "config").glob("*edited*"))


def test_off_a_terminal_it_says_which_file_it_is(pflow, pflow_home):
    done = pflow("mcp", "edit")
    assert done.exit_code == 2
    assert f"Edit the file: {pflow_home / 'config' / 'mcp-servers.toml'}" in done.stderr


def test_an_editor_that_fails_is_told(pflow_home, hosts):
    screen = run_on_terminal(
        "mcp", "edit", home=pflow_home, environment={"VISUAL": "false"}, started=hosts.append
    )
    assert screen.exit_code == 2
    assert "Set VISUAL or EDITOR" in screen.shown
