"""Completion as people use it: bash, zsh and fish themselves, with the scripts that pflow installs."""

import os
import shlex
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from programs import executable
from typing_terminal import terminal

pytest.importorskip("mcp")

from pflow_mcp_plugin.discovery.servers import catalog, server_store
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.types import ServerInfo, Tool

HOSTILE = "$(touch pwned)`touch pwned`;x"
FLAGS = {
    "two words": {"type": "string"},
    "file_path": {"type": "string"},
    "mode": {"type": "string", "enum": ["very fast", "slow", HOSTILE, "it's", "bad\x1b[31m\nword\tx"]},
    "dry_run": {"type": "boolean"},
}


@pytest.fixture
def desk(pflow_home, tmp_path, monkeypatch):
    """A folder with files, a home without anything, a synced server, and both programs on PATH."""
    home, work, programs = (tmp_path / name for name in ("user", "work", "bin"))
    for folder in (home, work / "sub dir"):
        folder.mkdir(parents=True)
    (work / "my notes.json").write_text("{}")
    line = f'exec {shlex.quote(sys.executable)} -P -m pflow_mcp_plugin "$@"'
    for name in ("pflow", "pflow-mcp"):
        executable(programs / name, f"#!/bin/sh\n{line}\n")
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR", "EDITOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    with open_host() as host:
        server_store(host).add({"box": {"command": "never-started"}})
        box = Tool(name="make_it", input_schema={"type": "object", "properties": FLAGS})
        info = ServerInfo(name="Box", version="1", protocol="2025-11-25")
        listing = Listing(info=info, tools=(box, Tool(name="evil\x1b]0;name\x07")))
        catalog(host).save("box", listing, server_store(host).fingerprint("box"))
        host.registry.refresh()
    return SimpleNamespace(work=work, programs=programs)


def program(name):
    """Return the path of a shell; skip, or fail where shells are required, if it is not installed."""
    found = shutil.which(name)
    if found is None and os.environ.get("PFLOW_REQUIRE_SHELLS"):
        pytest.fail(f"a shell is required and not installed: {name}")
    return found or pytest.skip(f"a shell is not installed: {name}")


def install(shell):
    done = subprocess.run(
        ["pflow", "completion", shell, "--install"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(params=["bash", "zsh"])
def typed(desk, request):
    """An interactive shell that has its completion from `pflow completion SHELL --install`."""
    shell = program(request.param)
    assert "Wrote" in install(request.param)
    quiet = (
        "bind 'set enable-bracketed-paste off'" if request.param == "bash" else "unset zle_bracketed_paste"
    )
    with terminal([shell, "-i"], dict(os.environ), str(desk.work), quiet) as opened:
        yield opened


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("pflow mcp-box-m\t--mo\tve\t", ["mcp-box-make-it", "--mode", "very fast"]),
        (
            "pflow ec\t --message x th\tmcp-box-m\t--no\t",
            ["echo", "--message", "x", "then", "mcp-box-make-it", "--no-dry-run"],
        ),
        ("pflow mcp box m\t--file\tmy\t", ["mcp", "box", "make_it", "--file-path", "my notes.json"]),
        ("pflow mcp box make_it --mode '$(t\t", ["mcp", "box", "make_it", "--mode", HOSTILE]),
        ("pflow mcp box make_it --mode it\t", ["mcp", "box", "make_it", "--mode", "it's"]),
        ("pflow mcp box make_it --mode=@my\t", ["mcp", "box", "make_it", "--mode=@my notes.json"]),
        ('pflow run "my\t', ["run", "my notes.json"]),
        ("pflow validate my\\ n\t", ["validate", "my notes.json"]),
    ],
)
def test_a_line_is_completed_as_it_is_typed(desk, typed, line, given):
    assert typed.given(line) == given
    assert not (desk.work / "pwned").exists()


def test_both_names_of_the_program_and_its_path_are_completed(desk, typed):
    for name in ("pflow-mcp", str(desk.programs / "pflow"), "../bin/pflow"):
        typed.type(f"alias shown=; {name} completion fi\t--js\t\n", '"shell": "fish"')


def test_a_tab_shows_what_may_follow(typed):
    shown = typed.type("pflow workflow s\t\t\t", "save.*show")
    assert "\x1b]0;name" not in shown


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("pflow reg", ["registry"]),
        ("pflow mcp box make_it --mode ", ["very fast", "slow", HOSTILE, "it's"]),
        ('pflow mcp box make_it --mode "v', ["very fast"]),
        ("pflow mcp box make_it --mode @my", ["@my notes.json"]),
        ("pflow mcp serve --root ", ["sub dir/"]),
    ],
)
def test_fish_completes_with_descriptions(desk, line, completed):
    fish = program("fish")
    install("fish")
    code = f"complete -C {shlex.quote(line)}"
    done = subprocess.run(
        [fish, "-c", code], capture_output=True, text=True, cwd=desk.work, timeout=60, check=False
    )
    assert done.stderr == ""
    assert sorted(row.partition("\t")[0] for row in done.stdout.splitlines()) == sorted(completed)
