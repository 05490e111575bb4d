"""Every built-in preset that can start without an account is added, synced and called."""

from __future__ import annotations

import functools
import http.server
import subprocess
import threading
import tomllib

import pytest
import tomli_w

from pflow_mcp_plugin.presets.builtin_servers import PRESETS

pytestmark = pytest.mark.servers

NEED_ACCOUNT = {"github", "slack", "postgres", "notion"}
"""The presets that cannot start without an account, or a database server."""
ONE = {"thought": "one", "nextThoughtNeeded": "false", "thoughtNumber": "1", "totalThoughts": "1"}
SIMPLE = [
    ("demo", 6, {}, "word-count", {"text": "two words"}, '"words": 2'),
    ("duckdb", 4, {}, "execute-query", {"sql": "SELECT 40 + 2 AS answer"}, "42"),
    ("everything", 13, {}, "echo", {"message": "hello"}, "Echo: hello"),
    ("filesystem", 14, {"folder": "{here}"}, "read-text-file", {"path": "{here}/note.txt"}, "from the file"),
    ("sequential-thinking", 1, {}, "sequentialthinking", ONE, "thoughtNumber"),
    ("sqlite", 6, {"database": "{here}/a.db"}, "read-query", {"query": "SELECT 40 + 2 AS answer"}, "42"),
    ("time", 2, {"timezone": "Europe/Berlin"}, "get-current-time", {"timezone": "UTC"}, "UTC"),
]
"""Presets: how many tools there are, the inputs, a call of a tool, and what its answer says."""


@pytest.fixture
def preset(pflow, preset_runners, no_leftovers):
    """Add a preset with its inputs and sync it; return a function that calls one of its tools."""

    def add(name, tools, **inputs):
        pairs = [f"--input={key}={value}" for key, value in inputs.items()]
        added = pflow("mcp", "add", name, *pairs, "--sync", "--json")
        assert added.exit_code == 0, added.stdout
        assert added.envelope["data"]["servers"][0]["runs"] in added.stderr
        assert "other tools than its preset" not in added.stderr
        assert added.envelope["data"]["sync"][0]["tools_registered"] == tools

        def call(tool, *, exit_code=0, **arguments):
            pairs = [f"{key}={value}" for key, value in arguments.items()]
            ran = pflow("registry", "run", f"mcp-{name}-{tool}", *pairs, "--json")
            assert ran.exit_code == exit_code, ran.stderr
            return ran.stdout

        return call

    return add


@pytest.fixture
def site(tmp_path):
    """The URL of a page on this machine."""
    (tmp_path / "page.html").write_text("<title>Title of the page</title><p>Its text.</p>")
    handler = functools.partial(QuietHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/page.html"
        finally:
            server.shutdown()
            thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def browser(tmp_path, chromium):
    """A program that starts Chromium without its sandbox, which root cannot have."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nexec {chromium} --no-sandbox "$@"\n')
    program.chmod(0o755)
    return program


def test_every_preset_is_tested_here_or_needs_an_account():
    tested = {name.removeprefix("test_preset_").replace("_", "-") for name in globals()}
    assert {preset.name for preset in PRESETS} - tested - {row[0] for row in SIMPLE} == NEED_ACCOUNT


@pytest.mark.parametrize("row", SIMPLE, ids=[row[0] for row in SIMPLE])
def test_preset(preset, tmp_path, row):
    name, tools, inputs, tool, arguments, shown = row
    (tmp_path / "note.txt").write_text("from the file")
    given = ({key: text.format(here=tmp_path) for key, text in each.items()} for each in (inputs, arguments))
    assert shown in preset(name, tools, **next(given))(tool, **next(given))


def test_preset_git(preset, tmp_path):
    subprocess.run(["git", "init", "--quiet", "-b", "trunk", str(tmp_path / "repo")], check=True)
    call = preset("git", 12, repository=tmp_path / "repo")
    assert "trunk" in call("git-status", repo_path=tmp_path / "repo")


def test_preset_fetch(preset, site):
    # It fetches public pages only, which tests cannot reach.
    assert "is not a public address" in preset("fetch", 1)("fetch", url=site, exit_code=1)


def test_preset_memory(preset, tmp_path):
    file = tmp_path / "graph.jsonl"
    call = preset("memory", 9, file=file)
    call("create-entities", entities='[{"name": "Ada", "entityType": "person", "observations": []}]')
    assert "Ada" in call("read-graph")
    assert "Ada" in file.read_text()


@pytest.mark.timeout(240)
def test_preset_playwright(preset, site, browser):
    call = preset("playwright", 25, executable=browser)
    assert "Title of the page" in call("browser-navigate", url=site)


def test_preset_context7(preset, pflow_home, site, tmp_path):
    call = preset("context7", 2)
    # Its tools ask a service on the Internet; here one on this machine answers in its place.
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2" / "context").write_text("How to write a node")
    path = pflow_home / "config" / "mcp-servers.toml"
    config = tomllib.loads(path.read_text())
    server = config["mcpServers"]["context7"]
    server["env"] = {**server.get("env", {}), "CONTEXT7_API_URL": site.rpartition("/")[0]}
    path.write_text(tomli_w.dumps(config))
    assert "How to write a node" in call("query-docs", libraryId="/acme/nodes", query="nodes")
