"""The documents are right: their code blocks work, their links lead somewhere, what they name is there.

CONTRIBUTING.md says how to mark a block that is not run, or that is a file for the blocks after it.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import prepared_starts
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from virtual_environment import VirtualEnvironment

from pflow_mcp_plugin.host.cli.command_line import build_cli, leaves
from pflow_mcp_plugin.host.embedded_host import open_host

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pflow_mcp_plugin"
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "examples/*.md", ".github/**/*.md")
    for path in ROOT.glob(pattern)
)
NEED_SERVERS = {"README.md", "examples/README.md"}
INSTALL_PACKAGES = {"docs/first-preset.md", "docs/plugins.md"}
SHOWN_ONLY = {"text", "{eval-rst}", "{toctree}"}

_BLOCK_SECONDS = 90
_MARK = re.compile(r"<!-- (file|not run): (\S.*?) -->")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a document."""

    place: str
    """The document and the line, as in `README.md:12`."""
    language: str
    text: str
    file: str
    """The file that later blocks find it in, empty for none."""
    excuse: str
    """Why it is not run, empty if it is."""


@dataclass(kw_only=True)
class Stage:
    """Where the blocks of one document are played, one after the other."""

    folder: Path
    """Where the next block runs; a block that changes the folder changes it for the next."""
    scratch: Path
    """A folder for what the blocks do not see."""
    variables: Mapping[str, str]

    def play(self, block: Block) -> None:
        """Check a block, and run it unless it is marked."""
        if block.file:
            file = self.folder / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        {
            "console": self._console,
            "json": self._json,
            "markdown": self._markdown,
            "python": self._python,
            "toml": self._toml,
            "yaml": self._yaml,
        }[block.language](block)

    def _console(self, block: Block) -> None:
        lines = block.text.splitlines()
        assert all(line.startswith("$ ") for line in lines), f"{block.place}: a line is no command"
        if not block.excuse:
            end = self.scratch / "folder"
            script = [*(line.removeprefix("$ ") for line in lines), f"pwd -P > {shlex.quote(str(end))}"]
            self._run(block, "bash", "-ec", "\n".join(script))
            self.folder = Path(end.read_text(encoding="utf-8").removesuffix("\n"))

    def _json(self, block: Block) -> None:
        if "nodes" in json.loads(block.text) and not block.excuse:
            workflow = self._written("workflow.json", block)
            self._run(block, "pflow", "validate", str(workflow))

    def _markdown(self, block: Block) -> None:
        if not block.excuse:
            self._run(block, "pflow", "workflow", "import", str(self._written("workflow.md", block)))

    def _yaml(self, block: Block) -> None:
        if not block.excuse:
            self._run(block, "pflow", "validate", str(self._written("workflow.yaml", block)))

    def _python(self, block: Block) -> None:
        compile(block.text, block.place, "exec")
        if not block.excuse:
            self._run(block, "python", "-W", "error", str(self._written("program.py", block)))

    def _toml(self, block: Block) -> None:
        if "mcpServers" in tomllib.loads(block.text) and not block.excuse:
            config = self._written("home/config/mcp-servers.toml", block)
            self._run(block, "pflow", "config", "check", PFLOW_HOME=str(config.parents[1]))

    def _written(self, name: str, block: Block) -> Path:
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return path

    def _run(self, block: Block, *command: str, **variables: str) -> None:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_BLOCK_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{block.place}\n{block.text}\n{done.stdout}\n{done.stderr}"


def tokens(document: str) -> list[Token]:
    return MarkdownIt().enable("table").parse((ROOT / document).read_text(encoding="utf-8"))


def blocks(document: str) -> Iterator[Block]:
    marks: dict[str, str] = {}
    for token in tokens(document):
        if token.type == "fence" and token.map:
            yield Block(
                place=f"{document}:{token.map[0] + 1}",
                language=token.info,
                text=token.content,
                file=marks.get("file", ""),
                excuse=marks.get("not run", ""),
            )
        marks = {**marks, **dict(_MARK.findall(token.content))} if token.type == "html_block" else {}


def played(document: str) -> list[Block]:
    return [block for block in blocks(document) if block.language not in SHOWN_ONLY]


@pytest.fixture
def stage(tmp_path, pflow_home):
    folder, programs = tmp_path / "work" / "here", tmp_path / "programs"
    folder.mkdir(parents=True)
    programs.mkdir()
    if prepared := prepared_starts.prepared():
        (programs / "pflow").symlink_to(prepared.program)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    home = {"HOME": str(tmp_path / "user"), "XDG_CONFIG_HOME": ""}  # no client of whoever runs the tests
    return Stage(folder=folder, scratch=tmp_path, variables={**os.environ, **home, "PATH": path})


@pytest.mark.programs
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(name, marks=pytest.mark.slow if name in INSTALL_PACKAGES else ())
        for name in DOCUMENTS
        if played(name) and name not in NEED_SERVERS
    ],
)
def test_the_blocks_of_a_document_work(document, stage):
    if document in INSTALL_PACKAGES:
        environment = VirtualEnvironment(stage.scratch / "venv")
        stage.variables = {**stage.variables, **environment.variables}
    for block in played(document):
        stage.play(block)


@pytest.mark.servers
@pytest.mark.timeout(600)  # it may be the first to need the servers: installing them takes minutes
@pytest.mark.parametrize("document", sorted(NEED_SERVERS))
def test_the_blocks_of_a_document_work_with_real_servers(document, preset_runners, stage):
    shutil.copytree(ROOT / "examples", stage.folder / "examples")
    for file in ("README.md", "examples/servers.json"):
        shutil.copy(ROOT / file, stage.folder)
    for block in played(document):
        stage.play(block)


def test_every_mark_stands_before_a_block():
    marks = sum((ROOT / name).read_text(encoding="utf-8").count("\n<!-- ") for name in DOCUMENTS)
    marked = (bool(block.file) + bool(block.excuse) for name in DOCUMENTS for block in blocks(name))
    assert sum(marked) == marks


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document):
    broken = [link for link in links(document) if not leads_somewhere(document, link)]
    assert broken == []


def links(document: str) -> Iterator[str]:
    for token in tokens(document):
        for inline in token.children or ():
            yield from (str(value) for name, value in inline.attrs.items() if name in {"href", "src"})


def leads_somewhere(document: str, link: str) -> bool:
    """Whether a link is https, or names a file in the checkout and a heading in it."""
    parts = urlsplit(link)
    if parts.scheme:
        return parts.scheme == "https"
    target = (ROOT / document).parent / unquote(parts.path) if parts.path else ROOT / document
    inside = target.resolve().is_relative_to(ROOT) and target.exists()
    return inside and (not parts.fragment or parts.fragment in anchors(target))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as code hosts make them."""
    parsed = tokens(str(path.relative_to(ROOT)) if not path.is_absolute() else str(path.resolve()))
    titles = [after.content for token, after in pairwise(parsed) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_path_that_the_architecture_names_exists():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    assert paths
    assert [path for path in sorted(paths) if not (PACKAGE / path).exists()] == []


def test_the_documents_name_every_command_and_option():
    texts = "\n".join((ROOT / document).read_text(encoding="utf-8") for document in DOCUMENTS)
    general = {"--json", "--project", "--help"}
    missing = set()
    with open_host() as host:
        for leaf in leaves(build_cli(host)):
            if leaf.hidden:
                continue
            name = leaf.announced.path[-1]
            missing |= set() if re.search(rf"[ `]{name}\b", texts) else {" ".join(leaf.announced.path)}
            command = leaf.load("pflow")
            params = command.params if isinstance(command, click.Command) else ()
            options = {option for it in params if isinstance(it, click.Option) for option in it.opts}
            missing |= {
                f"{name} {option}"
                for option in options - general
                if option.startswith("--") and not re.search(rf"{option}(?![\w-])", texts)
            }
    assert missing - {"run --trace"} == set()  # the default, shown as --no-trace
