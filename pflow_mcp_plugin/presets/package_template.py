"""The template of a package that offers a preset: `pflow mcp new-preset` writes it for its author."""

from __future__ import annotations

from collections.abc import Mapping

_NAME, _MODULE, _TITLE = "acme-tickets", "acme_tickets", "Acme tickets"
"""The template is the package of this name."""

_PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "acme-tickets"
version = "0.1.0"
description = "A preset for pflow: Acme tickets"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["mcp>=2.3,<3", "pflow-mcp>=0.1"]

# How pflow finds the preset.
[project.entry-points.pflow]
acme-tickets = "acme_tickets.presets"

[tool.hatch.build.targets.wheel]
packages = ["acme_tickets"]
"""

_README = """\
# acme-tickets

A preset for [pflow](https://pypi.org/project/pflow-mcp/). After `pip install acme-tickets`:

```console
$ pflow mcp presets show acme-tickets
$ pflow mcp add acme-tickets --sync
```

The preset is in `acme_tickets/presets.py`. The server in `acme_tickets/server.py` is one to begin with.
If yours is on PyPI or npm, set `command` and `args` to what starts it in its exact version
(`uvx NAME@1.2.3`, `npx -y NAME@1.2.3`), and delete this one.

To test a change:

```console
$ pip install --editable . pytest
$ pytest
```
"""

_INIT = '''\
"""A preset for pflow: Acme tickets."""
'''

_PRESETS = '''\
"""The preset `acme-tickets`; `pflow mcp add acme-tickets` configures its server."""

from __future__ import annotations

import sys

from pflow_mcp_plugin.contract import hookimpl


@hookimpl
def pflow_mcp_presets(host):
    """Offer the preset."""
    from pflow_mcp_plugin.types import PresetInput, ServerPreset  # pflow starts faster without them

    return [
        ServerPreset(
            name="acme-tickets",
            title="Acme tickets",
            description="Search the tickets of a project",
            command=sys.executable,
            args=("-m", "acme_tickets.server", "${project}"),
            inputs=(PresetInput(name="project", description="Key of the project", default="DEMO"),),
        )
    ]
'''

_SERVER = '''\
"""A server to begin with: its tickets are made up."""

from __future__ import annotations

import sys

from mcp.server import MCPServer

TICKETS = ("The login fails", "The logo is too small", "A search finds nothing")

server = MCPServer("acme-tickets")


@server.tool()
def search(words: str) -> list[str]:
    """Find the tickets that contain these words."""
    project = sys.argv[1]
    return [f"{project}-{i}: {title}" for i, title in enumerate(TICKETS, 1) if words in title]


if __name__ == "__main__":
    server.run()
'''

_TESTS = '''\
"""The preset is found, its server starts, and a workflow uses it."""

from __future__ import annotations

from pflow_mcp_plugin.testing import assert_preset_starts

WORKFLOW = {
    "nodes": [{"id": "find", "type": "mcp-acme-tickets-search", "params": {"words": "login"}}],
    "outputs": {"found": {"source": "${find.result}"}},
}


def test_the_preset_is_found_and_its_server_starts():
    assert assert_preset_starts("acme-tickets", {"project": "TEST"}) == ("search",)


def test_a_workflow_runs_on_the_server(pflow_host):
    pflow_host.add_preset("acme-tickets", {"project": "TEST"})
    pflow_host.sync("acme-tickets")
    outcome = pflow_host.run(WORKFLOW)
    assert outcome.success, outcome.error
    assert outcome.outputs == {"found": ["TEST-1: The login fails"]}


def test_a_workflow_runs_without_the_server(pflow_host):
    def search(words: str) -> list[str]:
        return [f"a ticket about {words}"]

    tickets = pflow_host.stub("acme-tickets", [search])
    outcome = pflow_host.run(WORKFLOW)
    assert outcome.success, outcome.error
    assert outcome.outputs == {"found": ["a ticket about login"]}
    assert tickets.arguments("search") == [{"words": "login"}]
'''

_FILES: Mapping[str, str] = {
    "pyproject.toml": _PYPROJECT,
    "README.md": _README,
    "acme_tickets/__init__.py": _INIT,
    "acme_tickets/presets.py": _PRESETS,
    "acme_tickets/server.py": _SERVER,
    "tests/test_acme_tickets.py": _TESTS,
}


def package_files(name: str) -> dict[str, str]:
    """Return the files of a new preset package, path to text; its own tests pass once it is installed."""
    return {_renamed(path, name): _renamed(text, name) for path, text in _FILES.items()}


def _renamed(text: str, name: str) -> str:
    title = name.replace("-", " ").capitalize()
    return text.replace(_NAME, name).replace(_MODULE, name.replace("-", "_")).replace(_TITLE, title)
