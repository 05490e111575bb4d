"""Nodes on the command line, as people type them: a real shell, the real program, real servers."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from chat_completions import provider
from prepared_starts import PROGRAM
from programs import importing, put_plugin

HERE = Path(__file__).parent
SECONDS = 60
QUERY = 'pflow mcp-github-search-code --query="authentication bugs" --language="python"'


@attrs.frozen
class Done:
    """How a line ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def value(self):
        """What it printed, as JSON."""
        assert self.code == 0, self.err
        return json.loads(self.out)


@attrs.frozen
class Terminal:
    """A home with the servers `github` and `slack` and the nodes of `text_nodes`, and a shell in a folder."""

    folder: Path
    env: dict[str, str]
    calls_file: Path
    """The file in which the servers note their calls."""

    def type(self, line, *, keyboard=False, **env):
        """Run a line in a real shell; with an empty standard input, or with a keyboard that is idle."""
        leader, follower = pty.openpty() if keyboard else (None, subprocess.DEVNULL)
        try:
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=self.folder,
                env={**self.env, **env},
                stdin=follower,
                capture_output=True,
                encoding="utf-8",
                timeout=SECONDS,
                check=False,
            )
        finally:
            if leader is not None:
                os.close(leader)
                os.close(follower)
        return Done(done.returncode, done.stdout, done.stderr)

    def calls(self):
        """Return the calls since this was last asked for: server, tool, arguments."""
        text = self.calls_file.read_text(encoding="utf-8") if self.calls_file.exists() else ""
        self.calls_file.unlink(missing_ok=True)
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def set_up(tmp_path_factory):
    """The home, made by the first command of §10.1 and its like for `slack`."""
    root = tmp_path_factory.mktemp("direct")
    programs, site, folder = root / "bin", root / "site", root / "folder"
    for it in (programs, site, folder):
        it.mkdir()
    put_plugin(site, "text", (HERE / "text_nodes.py").read_text())
    named = (sys.executable, HERE / "named_servers.py")
    for name, command in (
        ("pflow", PROGRAM),
        *((f"mcp-{server}", (*named, server, root / "calls")) for server in ("github", "slack")),
    ):
        script = programs / name
        script.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in command) + ' "$@"\n')
        script.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        **importing(site),
        "PFLOW_HOME": str(root / "home"),
        "LLM_USER_PATH": str(root / "llm"),
    }
    terminal = Terminal(folder, env, root / "calls")
    for line in (
        'pflow registry add-mcp --server github --command "mcp-github" --transport stdio',
        "pflow registry add-mcp --server slack --command mcp-slack --transport stdio",
        "pflow registry refresh",
    ):
        done = terminal.type(line)
        assert done.code == 0, done.err
    return terminal


@pytest.fixture
def terminal(set_up, tmp_path):
    """The same home, with a folder of its own for this test."""
    (tmp_path / "note.txt").write_text("from a file", encoding="utf-8")
    (tmp_path / "meta.json").write_text('{"a": 1}', encoding="utf-8")
    set_up.calls()
    return attrs.evolve(set_up, folder=tmp_path)


@pytest.mark.parametrize("arrow", ["then", "'>>'"])
def test_what_is_piped_in_goes_through_a_search_and_a_summary_into_a_message(terminal, arrow):
    line = (
        'echo "TODO comments" | pflow mcp-github-search-code --language=python'
        f" {arrow} summarize-text {arrow} mcp-slack-send-message --channel=dev-team"
    )
    done = terminal.type(line)
    assert done.code == 0, done.err
    assert done.out.startswith('sent to dev-team: In short: {"search_results"')
    searched, sent = terminal.calls()
    assert searched == ["github", "search_code", {"query": "TODO comments", "language": "python"}]
    assert sent[:2] == ["slack", "send_message"]
    assert sent[2]["channel"] == "dev-team"
    assert "TODO comments 2.py" in sent[2]["message"]


@pytest.fixture
def model(terminal):
    """A model behind an OpenAI-compatible server, the default one of the library `llm`."""
    pytest.importorskip("llm", reason="the extra [llm] is not installed")
    place = Path(terminal.env["LLM_USER_PATH"])
    place.mkdir(exist_ok=True)
    with provider() as made:
        table = {"model_id": "there", "model_name": "x", "api_base": f"http://127.0.0.1:{made.port}/v1"}
        (place / "extra-openai-models.yaml").write_text(json.dumps([table]), encoding="utf-8")
        (place / "default_model.txt").write_text("there", encoding="utf-8")
        made.answer("Two findings.")
        yield made


@pytest.mark.parametrize("arrow", ["then", "'>>'"])
def test_findings_go_through_a_language_model_into_a_message(terminal, model, arrow):
    line = f"""echo "security vulnerability" | \\
      pflow mcp-github-search-code --language python --max-results 10 {arrow} \\
      llm --prompt="Summarize these security findings" --temperature 0.3 {arrow} \\
      mcp-slack-send-message --channel security-alerts"""
    done = terminal.type(line)
    assert (done.code, done.out) == (0, "sent to security-alerts: Two findings.\n"), done.err
    (question,) = model.requests
    said = " ".join(message["content"] for message in question["messages"])
    assert "Summarize these security findings" in said
    assert "security vulnerability 2.py" in said
    assert question["temperature"] == 0.3
    arguments = {"query": "security vulnerability", "language": "python", "max_results": 10}
    assert terminal.calls() == [
        ["github", "search_code", arguments],
        ["slack", "send_message", {"message": "Two findings.", "channel": "security-alerts"}],
    ]


@pytest.mark.parametrize(
    ("line", "file"),
    [
        (f"{QUERY} >> summarize-text", "summarize-text"),
        (f"{QUERY} >> summarize-text >> mcp-slack-send-message --channel=x", "mcp-slack-send-message"),
        ("pflow mcp github search_code --query x >> llm --prompt short", "llm"),
        ("pflow run-node show-card --title x >> folder/show-card", "folder/show-card"),
    ],
)
def test_a_chain_that_the_shell_took_for_a_redirection_does_not_run(terminal, line, file):
    (terminal.folder / "folder").mkdir()
    done = terminal.type(line)
    made = terminal.folder / file
    assert (done.code, terminal.calls(), made.read_bytes()) == (2, [], b"")
    message, *steps = done.err.splitlines()
    assert message == f"Error: The shell took `>>` for itself: it appends the output to the file {made}"
    assert f"... then {made.name} ..., or quote it: '>>'" in steps[0]
    assert steps[1] == f"  -> Remove the file that the shell created: rm {made}"


# Lines as people type them

CARDS = [
    ("""pflow show-card --title="it's" --body 'say "hi"'""", {"title": "it's", "body": 'say "hi"'}),
    ("pflow show-card --title $'two\\nlines'", {"title": "two\nlines"}),
    ("pflow show-card --title 'Grüße an Zoë 👋 日本'", {"title": "Grüße an Zoë 👋 日本"}),
    ("pflow show-card --title '*' --body '$HOME ${x} `y`'", {"title": "*", "body": "$HOME ${x} `y`"}),
    ("pflow show-card --title @note.txt", {"title": "from a file"}),
    ("printf 'hello\\r\\n' | pflow show-card", {"title": "hello"}),
    ("echo '{\"a\": 2}' | pflow show-card --title x --meta -", {"title": "x", "meta": {"a": 2}}),
    ("pflow show-card --title x < /dev/null", {"title": "x"}),
    ("pflow show-card --param print=yes --title x", {"title": "x", "print": "yes"}),
]


@pytest.mark.parametrize(("line", "card"), CARDS, ids=[line for line, _ in CARDS])
def test_a_line_gives_the_node_what_was_meant(terminal, line, card):
    done = terminal.type(line)
    assert (done.value, done.err) == (card, "")


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("pflow echo --message hello", "hello\n"),
        ("pflow show-card --title a then echo --message 'no $${card}'", "no ${card}\n"),
        ("pflow read-file --file-path note.txt then write-file --file-path copy.txt", "copy.txt\n"),
        ("pflow read-file --file-path note.txt then shell --command 'tr a-z A-Z'", "FROM A FILE\n"),
        ("pflow mcp github get-repo --owner a --repo b then summarize-text", "In short: a/b\n"),
    ],
)
def test_the_result_of_the_last_node_is_printed_as_text(terminal, line, printed):
    done = terminal.type(line)
    assert (done.code, done.out, done.err) == (0, printed, "")


WRONG = [
    ("pflow meta.json", ["No such command: pflow meta.json", "Did you mean pflow run meta.json?"]),
    ("pflow mcp github serch_code --query x", ["Did you mean pflow mcp call github search_code?"]),
    (
        "pflow show-card --tilte x --count three then ehco",
        ["3 mistakes", "no flag --tilte", "must be int", "Unknown node type ehco"],
    ),
]


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line for line, _ in WRONG])
def test_a_wrong_line_ends_with_2_and_the_nearest_right_one(terminal, line, said):
    done = terminal.type(line)
    assert (done.code, done.out, terminal.calls()) == (2, "", [])
    assert done.err.startswith("Error: ")
    for part in said:
        assert part in done.err


def test_a_keyboard_is_never_waited_for(terminal):
    assert terminal.type("pflow show-card --title x", keyboard=True).value == {"title": "x"}
    for line in ("pflow show-card", "pflow show-card --title -"):
        done = terminal.type(line, keyboard=True)
        assert (done.code, done.out) == (2, "")
        assert "--title" in done.err
