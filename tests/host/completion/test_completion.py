import json
from types import SimpleNamespace

import click
import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import Command, PflowError, Suggestion, hookimpl
from pflow_mcp_plugin.host.cli.completion import complete
from pflow_mcp_plugin.host.completion.installation import installation, script
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost, open_host
from pflow_mcp_plugin.host.plugins import create_manager

ECHO = flow(
    step("a", "echo", {"message": "${text} ${other}"}),
    inputs={"text": {"type": "str"}, "other": {"type": "str", "default": ""}},
)


@pytest.fixture
def answered(pflow_home, capsys):
    """Return the kinds and values of an answer, `word` left out; nothing may be on standard error."""

    def answered(*words, plugins=None):
        manager = create_manager() if plugins is not None else None
        for plugin in plugins or ():
            manager.register(plugin)
        assert complete(["zsh", *words], manager) == 0
        out, err = capsys.readouterr()
        assert err == ""
        rows = [line.split("\t") for line in out.splitlines()]
        return [value if kind == "word" else (kind, value) for kind, value, _ in rows]

    return answered


@pytest.fixture
def host(pflow_home):
    with open_host() as host:
        yield host


@click.group()
def tools():
    """Stand for a plugin's group."""


@tools.command()
@click.option("--mode", type=click.Choice(["fast", "slow"]), help="How.")
@click.argument("word", shell_complete=lambda context, parameter, typed: context.obj.words)
def cut(mode, word):
    """Stand for a command in it."""


@click.command()
@click.argument("word", shell_complete=lambda context, parameter, typed: 1 / 0)
def crashes(word):
    """Stand for a command whose completion fails."""


def must_not_run(args, prog_name, **extra):
    raise AssertionError("it must not run")


def complete_words(words, incomplete, *, obj):
    print("beside the answer")
    return [Suggestion(value=f"{len(words)}-{incomplete}", type="stem")]


plain = SimpleNamespace(main=must_not_run)
other = SimpleNamespace(main=must_not_run, complete_words=complete_words)
wrong = SimpleNamespace(main=must_not_run, complete_words=lambda words, incomplete, *, obj: ["a string"])


def announce(*names):
    commands = [Command(path=[name], help="Help.", load=f"{__name__}:{name}") for name in names]
    return SimpleNamespace(pflow_register_commands=hookimpl(lambda host: commands))


def test_commands_groups_and_options_are_completed(answered):
    assert {"run", "registry", "completion"} <= set(answered(""))
    assert answered("reg") == ["registry"]
    assert answered("--v") == ["--version"]
    assert answered("workflow", "show", "--ver") == ["--version"]
    assert answered("completion", "") == ["bash", "zsh", "fish"]
    assert answered("--") == ["--version", "--project", "--help"]
    assert {"--cache", "--json", "--help"} <= set(left := answered("run", "--no-trace", "x", "--"))
    assert "--no-trace" not in left
    assert answered("absent", "word", "") == []


def test_node_types_stand_beside_commands_once_a_letter_is_typed(answered):
    assert "echo" not in answered("")
    assert answered("ec") == ["echo"]
    assert answered("run-node", "ec") == ["echo"]
    assert answered("echo", "--me") == ["--message"]
    assert answered("registry", "describe", "echo", "read") == ["read-file"]
    assert answered("registry", "validate", "ec") == ["echo"]
    assert answered("registry", "validate", "--source", "p") == ["pflow"]


def test_workflows_inputs_runs_and_settings_are_completed_by_name(answered, host):
    host.library.save("daily", ECHO)
    host.settings.set("API_TOKEN", "the-secret-value")
    outcome = host.runner.run(ECHO, {"text": "x"}, name="daily")
    for line in ("run da", "run --cache da", "validate ", "workflow export-python "):
        assert answered(*line.split(" ")) == ["daily", ("file", "")]
    assert answered("workflow", "graph", "daily", "--html", "") == [("file", "")]
    assert answered("workflow", "delete", "") == ["daily"]
    assert answered("run", "daily", "text=1", "") == [("stem", "other=")]
    bounded = {**ECHO, "inputs": {"text": {"enum": ["one", "other"]}, "other": {"enum": [1, True, None]}}}
    host.library.save("bounded", bounded)
    assert answered("run", "bounded", "text=o") == ["text=one", "text=other"]
    assert answered("run", "bounded", "other=") == ["other=1", "other=true", "other=null"]
    assert answered("run", "bounded", "none=") == []
    assert answered("trace", "show", "") == ["latest", outcome.run_id]
    assert answered("trace", "view", outcome.run_id[:8]) == [outcome.run_id]
    assert answered("trace", "show", "./") == [("file", "")]
    for words in (("get", ""), ("unset", "API"), ("set", "")):
        assert answered("settings", *words) == ["API_TOKEN"]
    assert answered("settings", "set", "API_TOKEN", "") == []


def test_what_plugins_complete_is_asked_of_their_commands(answered, monkeypatch):
    monkeypatch.setattr(EmbeddedHost, "words", ["one", "two"], raising=False)
    plugins = [announce("tools", "other", "plain", "crashes", "wrong")]
    assert answered("tools", "", plugins=plugins) == ["cut"]
    assert answered("tools", "cut", "--mode", "f", plugins=plugins) == ["fast"]
    assert answered("tools", "cut", "--mode=f", plugins=plugins) == ["--mode=fast"]
    assert answered("tools", "cut", "t", plugins=plugins) == ["two"]
    assert answered("other", "a", "b", "c", plugins=plugins) == [("stem", "2-c")]
    for name in ("plain", "crashes", "wrong"):
        assert answered(name, "", plugins=plugins) == []
    assert answered("crashes", "--h", plugins=plugins) == ["--help"]


@pytest.mark.parametrize("place", ["config/settings.json", "data/registry.json"])
def test_with_a_corrupt_file_the_rest_is_completed_and_nothing_is_said(answered, pflow_home, place):
    assert answered("ec") == ["echo"]
    path = pflow_home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\xff{ not = [valid")
    assert answered("ec") == ["echo"]
    assert answered("reg") == ["registry"]
    assert answered("settings", "get", "--") == ["--show", "--json", "--help"]
    answered("settings", "get", "")


@pytest.mark.parametrize("arguments", [[], ["bash"], ["bash", "x"], ["zsh"], ["tcsh"], ["fish", "'"]])
def test_a_script_that_asks_wrongly_is_told_nothing(pflow_home, capsys, arguments):
    assert complete(arguments) == 0
    assert capsys.readouterr().err == ""


def test_the_program_ends_quietly_whatever_is_typed(pflow):
    done = pflow("__complete", "bash", " =", "pflow reg")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "word\tregistry\n", "")
    done = pflow("__complete", "fish", "\udce9")
    assert (done.exit_code, done.stderr) == (0, "")


def test_the_script_of_each_shell_is_printed(pflow):
    for shell, word in (("bash", "complete -F"), ("zsh", "#compdef"), ("fish", "complete -c")):
        assert word in pflow("completion", shell).stdout
        assert word in json.loads(pflow("completion", shell, "--json").stdout)["data"]["script"]
    assert pflow("completion", "tcsh").exit_code == 2
    assert pflow("completion", "bash", "--install", "--uninstall").exit_code == 2


def test_what_was_installed_is_named_and_so_is_what_was_removed(pflow, tmp_path):
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}
    script = tmp_path / ".config" / "fish" / "completions" / "pflow.fish"
    shown = pflow("completion", "fish", "--install", env=home).stdout
    assert f"Wrote {script}" in shown
    assert "New shells complete" in shown
    shown = pflow("completion", "fish", "--uninstall", env=home).stdout
    assert f"Removed completion from {script}" in shown
    assert "New shells complete" not in shown


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(variable, raising=False)
    return home


def test_fish_finds_its_script_by_itself(home, tmp_path):
    place = installation("fish", tmp_path / "data")
    files = [home / ".config/fish/completions" / name for name in ("pflow.fish", "pflow-mcp.fish")]
    assert place.install() == files
    assert {file.read_text() for file in files} == {script("fish")}
    assert place.install() == []
    assert place.uninstall() == files
    assert place.uninstall() == []


def test_a_block_in_the_startup_file_of_bash_reads_the_script(home, tmp_path):
    rc = home / ".bashrc"
    rc.write_bytes(b"alias x='\xff'")
    rc.chmod(0o640)
    place = installation("bash", tmp_path / "da ta")
    own = tmp_path / "da ta" / "completion" / "pflow.bash"
    assert place.install() == [own, rc]
    assert rc.read_bytes().startswith(b"alias x='\xff'\n\n# >>> completion of pflow >>>\n. '/")
    assert rc.stat().st_mode & 0o777 == 0o640
    assert place.install() == []
    rc.write_bytes(rc.read_bytes() + b"alias y=z\n")
    assert place.install() == [rc]
    assert rc.read_bytes().count(b">>> completion of pflow >>>") == 1
    assert place.uninstall() == [own, rc]
    assert rc.read_bytes() == b"alias x='\xff'\nalias y=z\n"


def test_where_zsh_does_not_complete_the_block_starts_that(home, tmp_path):
    place = installation("zsh", tmp_path / "data")
    assert place.install() == [tmp_path / "data/completion/pflow.zsh", home / ".zshrc"]
    assert "compinit" in (home / ".zshrc").read_text()


def test_the_file_of_another_is_not_replaced_or_removed(home, tmp_path):
    other = home / ".config/fish/completions/pflow.fish"
    other.parent.mkdir(parents=True)
    other.write_text("complete -c pflow")
    place = installation("fish", tmp_path / "data")
    with pytest.raises(PflowError, match="did not write it") as caught:
        place.install()
    step = "Move it away, or print the script instead: pflow completion fish"
    assert (caught.value.kind, caught.value.suggestions) == ("config", (step,))
    assert place.uninstall() == []
    assert other.read_text() == "complete -c pflow"
