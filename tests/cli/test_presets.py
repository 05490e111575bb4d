"""`pflow mcp presets`, run as a host runs it, and `new-preset`; tests/plugins installs what that makes."""

import ast
import tomllib
from types import SimpleNamespace

import pytest

from pflow_mcp_plugin.cli.presets import presets
from pflow_mcp_plugin.contract import PflowError, hookimpl
from pflow_mcp_plugin.types import PresetInput, ServerPreset


def test_presets_are_listed_with_what_starts_them(desk):
    report = desk.run(presets)
    assert len(report.data) == 16
    lines = report.render().splitlines()
    assert lines[1].split()[:2] == ["context7", "npx"]
    assert lines[-1].startswith("Add one: pflow mcp add NAME")


def test_words_select_presets(desk):
    report = desk.run(presets, "browser")
    assert [row["name"] for row in report.data] == ["playwright"]
    report = desk.run(presets, "no", "such", "thing")
    assert report.data == []
    assert report.render() == "No preset contains no such thing. See all: pflow mcp presets"


def test_one_is_shown_with_its_command_inputs_and_origin(desk):
    report = desk.run(presets, "show", "filesystem")
    text = report.render()
    assert "npx -y @modelcontextprotocol/server-filesystem@" in text
    assert "folder: The folder it may use" in text
    assert "from     pflow-mcp" in text
    assert "Add it: pflow mcp add filesystem --input folder=FOLDER" in text
    assert report.data["args"][-1] == "${folder}"
    assert report.data["inputs"][0]["name"] == "folder"
    assert report.data["manifest_hash"].startswith("sha256:")


def test_a_remote_one_is_shown_with_its_url_and_headers(desk):
    text = desk.run(presets, "show", "github").render()
    assert "https://api.githubcopilot.com/mcp/" in text
    assert "Authorization: Bearer ${GITHUB_TOKEN}" in text
    assert "secret" in text


def test_a_missing_runner_is_said_with_where_to_get_it(desk, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "")
    report = desk.run(presets, "show", "git")
    assert "uvx is not on PATH. Install uv" in report.render()
    assert report.data["program"] is None
    assert "https://docs.astral.sh/uv" in report.data["remedy"]


def test_an_unknown_one_suggests_the_nearest(desk):
    with pytest.raises(PflowError, match="No preset is named filesytem") as unknown:
        desk.run(presets, "show", "filesytem")
    assert (unknown.value.kind, unknown.value.suggestions[0]) == ("not_found", "Did you mean filesystem?")


def test_a_plugin_that_fails_is_warned_of_and_the_others_are_listed(desk):
    desk.manager.register(SimpleNamespace(pflow_mcp_presets=hookimpl(lambda host: 1 // 0)), "bad")
    assert len(desk.run(presets).data) == 16
    assert "Plugin bad" in desk.warnings()
    assert "ZeroDivisionError" in desk.warnings()


def test_tools_and_other_plugins_are_shown(desk):
    own = ServerPreset(
        name="acme",
        title="Acme",
        description="Does it",
        command="my server",
        args=("a b", "${folder}", "${mode}", "${more}"),
        env={"TOKEN": "${TOKEN}"},
        tools=("read_*",),
        inputs=(
            PresetInput(name="folder", description="Where"),
            PresetInput(name="TOKEN", description="Who", secret=True),
            PresetInput(name="mode", description="How", choices=("fast", "slow"), default="fast"),
            PresetInput(name="more", description="What else", required=False),
        ),
    )
    desk.manager.register(SimpleNamespace(pflow_mcp_presets=hookimpl(lambda host: [own])), "acme-plugin")
    text = desk.run(presets, "show", "acme").render()
    assert "runs     'my server' 'a b'" in text
    assert "tools    read_*" in text
    assert "from     plugin acme-plugin" in text
    assert [line.split(None, 1)[1] for line in text.splitlines() if line.startswith("  input ")] == [
        "folder: Where",
        "TOKEN: Who (secret)",
        "mode: How (optional; default fast; one of fast, slow)",
        "more: What else (optional)",
    ]
    assert text.endswith("pflow mcp add acme --input folder=FOLDER")


def test_the_built_in_plugin_can_be_disabled(typed, monkeypatch):
    monkeypatch.setenv("PFLOW_DISABLE_PLUGINS", "mcp-presets")
    without = typed("mcp", "presets", "--json")
    assert (without.envelope["data"], without.stderr) == ([], "")


def test_it_writes_a_package_of_that_name_and_says_what_to_run(typed, tmp_path):
    done = typed("mcp", "new-preset", "my-own-mail", "--json")
    assert done.exit_code == 0
    data = done.envelope["data"]
    assert data["folder"] == "my-own-mail"
    assert data["next"].startswith("pip install --editable my-own-mail")
    folder = tmp_path / "my-own-mail"
    written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert sorted(data["files"]) == written
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pflow"] == {"my-own-mail": "my_own_mail.presets"}
    for path in map(folder.joinpath, written):
        text = path.read_text(encoding="utf-8")
        assert "acme" not in text.lower()
        if path.suffix == ".py":
            ast.parse(text)


def test_an_empty_folder_is_filled_and_another_is_left_alone(typed, tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    assert typed("mcp", "new-preset", "mail", folder).exit_code == 0
    before = sorted(folder.rglob("*"))
    again = typed("mcp", "new-preset", "post", folder)
    assert again.exit_code == 2
    assert "is not empty" in again.stderr
    assert sorted(folder.rglob("*")) == before


REASONS = {
    **dict.fromkeys(("Mail", "9mail", "mail_box", "import", "-mail", ""), "Invalid package"),
    **dict.fromkeys(
        ("json", "asyncio", "mcp", "attrs", "pflow-mcp", "pflow-mcp-plugin", "pytest"),
        "There is another package or module named {name}",
    ),
    "github": "A preset named {name} already exists",
}


@pytest.mark.parametrize("name", REASONS)
def test_a_name_that_cannot_be_one_of_a_module_and_a_new_preset_is_refused(typed, tmp_path, name):
    done = typed("mcp", "new-preset", "--", name, "folder")
    assert done.exit_code == 2
    assert REASONS[name].format(name=name) in done.stderr
    assert not (tmp_path / "folder").exists()
