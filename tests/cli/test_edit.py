"""`pflow mcp edit`, with an editor of the test's own."""

import shlex
import sys

import pytest
from screen import run_on_terminal

from pflow_mcp_plugin.cli import configured_servers
from pflow_mcp_plugin.contract import PflowError

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
def config(desk):
    """The config, which has a server."""
    return desk.write(GOOD)


@pytest.fixture
def edited(desk, tmp_path, monkeypatch):
    """Run the command with an editor that writes these texts, one at each start.

    `again` answers whether to edit again; `meanwhile` is a file that another program writes at the same
    time, and its text.
    """
    monkeypatch.setattr(configured_servers, "is_interactive", lambda: True)

    def edited(*texts, again=False, meanwhile=()):
        versions, editor = tmp_path / "versions", tmp_path / "editor.py"
        versions.mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (versions / f"{number}.toml").write_text(text, encoding="utf-8")
        editor.write_text(EDITOR, encoding="utf-8")
        command = shlex.join([sys.executable, str(editor), str(versions), *map(str, meanwhile)])
        monkeypatch.setenv("VISUAL", command)
        monkeypatch.setattr("click.confirm", lambda *_, **__: again)
        return desk.run(configured_servers.edit)

    return edited


def copies(config):
    return [copy.read_text() for copy in config.parent.glob("*edited*")]


def test_the_config_is_edited_and_checked(edited, config):
    assert edited(GOOD + "# more\n").render().startswith("Saved")
    assert (config.read_text(), copies(config)) == (GOOD + "# more\n", [])
    assert edited(GOOD + "# more\n").render().startswith("Nothing was changed")
    assert copies(config) == []


def test_a_mistake_is_shown_and_can_be_corrected_at_once(edited, config, capsys):
    assert edited(BAD, GOOD + "# more\n", again=True).data["changed"]
    assert "mcpServers.clock.command" in capsys.readouterr().err
    assert config.read_text() == GOOD + "# more\n"


def test_whoever_leaves_a_mistake_is_told_with_exit_code_2(edited, config):
    with pytest.raises(PflowError, match="has mistakes") as caught:
        edited(BAD)
    assert caught.value.exit_code == 2
    assert config.read_text() == BAD


def test_what_is_not_toml_is_kept_beside_the_config_and_never_saved(edited, config):
    with pytest.raises(PflowError, match="not valid TOML"):
        edited("[mcpServers.clock\n")
    assert (config.read_text(), copies(config)) == (GOOD, ["[mcpServers.clock\n"])


def test_what_another_program_changed_meanwhile_is_not_overwritten(edited, config):
    other = GOOD + '[mcpServers.other]\ncommand = "b"\n'
    with pytest.raises(PflowError, match="Another program changed"):
        edited(GOOD + "# mine\n", meanwhile=(config, other))
    assert (config.read_text(), copies(config)) == (other, [GOOD + "# mine\n"])


def test_an_editor_that_fails_is_told_on_a_terminal_and_off_one_which_file_it_is(
    desk, config, pflow_home, hosts
):
    with pytest.raises(PflowError) as caught:
        desk.run(configured_servers.edit)
    assert caught.value.suggestions == (f"Edit the file: {config}",)
    environment = {"VISUAL": "false"}
    screen = run_on_terminal("mcp", "edit", home=pflow_home, environment=environment, started=hosts.append)
    assert screen.exit_code == 2
    assert "Set VISUAL or EDITOR" in screen.shown
