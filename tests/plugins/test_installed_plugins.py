"""Plugins as packages of their own: built, installed by pip, found by their entry points, removed again."""

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FIND = {
    "nodes": [{"id": "find", "type": "mcp-acme-tickets-search", "params": {"words": "login"}}],
    "outputs": {"found": {"source": "${find.result}"}},
}


@pytest.fixture
def pflow(environment, pflow_home):
    """Run pflow in the environment; give its exit code and JSON."""

    def run(*arguments):
        done = environment.run("pflow", *arguments, "--json", PFLOW_HOME=str(pflow_home))
        return done.returncode, json.loads(done.stdout), done.stderr

    return run


@pytest.fixture
def installed(environment):
    """Install packages of this folder until the test ends."""
    with ExitStack() as stack:
        yield lambda *names: stack.enter_context(environment.installed(*(HERE / name for name in names)))


@pytest.fixture
def find(tmp_path):
    path = tmp_path / "find.json"
    path.write_text(json.dumps(FIND), encoding="utf-8")
    return path


def test_a_preset_package_is_found_added_synced_run_and_removed(environment, pflow, installed, find):
    with ExitStack() as stack:
        stack.enter_context(environment.installed(HERE / "acme_preset"))
        _, found, _ = pflow("mcp", "presets", "show", "acme-tickets")
        assert found["data"]["origin"] == "acme-tickets 0.1.0"
        code, added, _ = pflow("mcp", "add", "acme-tickets", "--input", "project=WEB", "--sync")
        assert code == 0
        assert added["data"]["sync"][0]["tools_registered"] == 1
        code, outcome, _ = pflow("run", find)
        assert code == 0
        assert outcome["data"]["outputs"] == {"found": ["WEB-1: The login fails"]}

    code, listed, warnings = pflow("mcp", "list")
    assert (code, warnings) == (0, "")
    assert [server["name"] for server in listed["data"]] == ["acme-tickets"]
    assert pflow("plugins")[0] == 0
    code, gone, _ = pflow("mcp", "presets", "show", "acme-tickets")
    assert (code, gone["error"]["type"]) == (2, "not_found")
    code, failed, _ = pflow("mcp", "sync", "acme-tickets")  # the package held the server too
    assert code == 3
    assert "acme_tickets" in json.dumps(failed)
    assert pflow("mcp", "tools")[0] == 0
    assert pflow("mcp", "remove", "acme-tickets")[0] == 0
    assert pflow("mcp", "list")[1]["data"] == []


def test_the_template_package_is_what_new_preset_writes(pflow, tmp_path):
    code, written, _ = pflow("mcp", "new-preset", "acme-tickets", tmp_path / "acme")
    assert code == 0
    for path in written["data"]["files"]:
        ours = (HERE / "acme_preset" / path).read_text(encoding="utf-8")
        assert (tmp_path / "acme" / path).read_text(encoding="utf-8") == ours, path


def test_a_clash_of_two_packages_is_refused_with_both_named(pflow, installed):
    installed("acme_preset", "acme_clash")
    code, refused, warnings = pflow("mcp", "add", "acme-tickets")
    assert (code, refused["error"]["type"]) == (2, "config")
    both = ("acme-tickets 0.1.0", "acme-clash 0.1.0")
    assert [origin for origin in both if origin not in refused["error"]["message"]] == []
    assert "Uninstall one of them" in warnings + json.dumps(refused)
    code, listed, _ = pflow("mcp", "presets", "demo")
    assert code == 0
    assert "demo" in [preset["name"] for preset in listed["data"]]


def test_a_package_that_cannot_be_imported_is_skipped_and_one_that_wraps_calls_sees_each(
    pflow, installed, find
):
    installed("acme_preset", "acme_broken", "acme_wrapper")
    code, listed, warnings = pflow("plugins")
    assert code == 0
    assert "acme-broken 0.1.0" in warnings
    assert "no_such_acme_library" in warnings
    status = {plugin["name"]: plugin["status"] for plugin in listed["data"]}
    assert (status["acme-broken"], status["acme-tickets"]) == ("skipped", "loaded")
    assert pflow("mcp", "add", "acme-tickets", "--sync")[0] == 0
    code, outcome, _ = pflow("run", find)
    assert code == 0, outcome
    assert outcome["data"]["outputs"] == {"found": ["DEMO-1: The login fails", "seen by acme-wrapper"]}


def test_row_33_the_command_of_a_preset_is_shown_in_full_before_its_first_start(
    environment, installed, pflow_home, tmp_path
):
    """Not the one of its documentation, and with nothing hidden behind what steers a terminal."""
    installed("acme_trojan")
    deed = 'cp "$0/said" "$0/said-before-the-start"; touch "$0/started"'

    def run(*arguments):
        with (tmp_path / "said").open("w") as said:
            done = subprocess.run(
                [environment.programs / "pflow", *arguments],
                env={**environment.variables, "PFLOW_HOME": str(pflow_home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                check=False,
            )
        return done.returncode, done.stdout, (tmp_path / "said").read_text()

    shown = "".join(run("mcp", "presets", "show", "acme-weather")[1:])
    code, *added = run("mcp", "add", "acme-weather", "--input", f"folder={tmp_path}")
    assert code == 0, added
    for text in (shown, "".join(added)):
        assert "sh -c" in text
        assert deed in text
        assert "\x1b" not in text
        assert "\r" not in text
    assert not (tmp_path / "started").exists()

    assert run("mcp", "remove", "acme-weather")[0] == 0
    code, *_ = run("mcp", "add", "acme-weather", "--input", f"folder={tmp_path}", "--sync")
    assert code == 3  # it speaks no MCP
    assert (tmp_path / "started").exists()
    before = (tmp_path / "said-before-the-start").read_text()
    assert "sh -c" in before
    assert deed in before
    assert str(tmp_path) in before
    assert "\x1b" not in before
