"""A run that was killed has a trace, and no secret is in it: another process makes it, which knows none."""

import json
import signal
from itertools import pairwise, product
from pathlib import Path

import pytest
from kill_trials import KILLS, killed_at
from planted_secrets import remains
from programs import script_server
from workflow_parts import edge, step

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]
ECHOING = Path(__file__).with_name("echoing_server.py")
INPUT = "Hq7xK2mP9wL4vB8nT3cR6yH1jF5dG0sA7eU2iO9p"
SETTING = "Vr8yL3nQ0xM5wC9oU4dS7zI2kG6eH1tB8fV3jP0q"
RESULT = "Ws9zM4oR1yN6xD0pV5eT8aJ3lH7fI2uC9gW4kQ1r"
SECRETS = (INPUT, SETTING, RESULT)
ENTRIES = 10
"""How often the record of this run takes note of what its trace shows: as each step begins and ends."""


@pytest.fixture
def planted(pflow, workflow):
    """A workflow whose secrets are in an input, in a setting and in what a server returns."""
    table = script_server(ECHOING, env={"TOKEN": "${TOKEN}"})
    pflow("mcp", "add", json.dumps({"echo": table}), env={"TOKEN": RESULT})
    assert pflow("mcp", "sync", "echo", env={"TOKEN": RESULT}).exit_code == 0
    assert pflow("settings", "set", "PLANTED", SETTING).exit_code == 0
    steps = [
        step("given", "echo", {"message": "${token} and ${planted}"}),
        step("said", "mcp-echo-blocks", {"number": 0}),
        step("again", "echo", {"message": "${said.result}"}),
        step("all", "echo", {"message": "${item} ${given.message}"}, batch={"items": [1, 2]}),
        step("last", "mcp-echo-blocks", {"number": 9}),
    ]
    return workflow(
        *steps,
        edges=[edge(one["id"], other["id"]) for one, other in pairwise(steps)],
        inputs={"token": {"required": True, "secret": True}, "planted": {"setting": "PLANTED"}},
    )


def test_no_secret_is_in_the_trace_of_a_run_that_was_killed(planted, pflow, started, pflow_home, tmp_path):
    moments = list(product(range(1, ENTRIES + 1), ["before", "after"]))
    for number, at in moments[:: 1 if KILLS > 1 else 5]:
        program = killed_at("put_entry", at, number)
        run = started("run", planted, f"token={INPUT}", program=program, env={"TOKEN": RESULT})
        said = run.communicate(timeout=60)
        assert run.returncode == -signal.SIGKILL, said
        shown = [pflow("trace", "show", *words) for words in ((), ("--json",), ("--full",))]
        shown.append(pflow("trace", "view", "--output", str(tmp_path / "page.html")))
        assert {it.exit_code for it in shown} == {0}
        trace = json.loads(shown[1].stdout)["data"]
        assert trace["error"]["type"] == "interrupted"
        begun = (number - (at == "before")) // 2  # each step is noted as it begins and as it ends
        assert len(trace["steps"]) >= min(begun, 3)
        assert "killed" in shown[0].stdout
        printed = [text for it in shown for text in (it.stdout, it.stderr)]
        for secret in SECRETS:
            page = (tmp_path / "page.html").read_text()
            listed = pflow("resume", "--dry-run", "--json").stdout
            assert remains(secret, [*printed, page, listed], pflow_home / "state") == []
        assert pflow("resume", trace["run_id"], "--abandon").exit_code == 0
