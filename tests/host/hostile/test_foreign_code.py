"""Whatever the code of a plugin or a node raises, pflow names it, and `--json` prints one JSON object.

The table: each place where pflow calls such code × a part of what it may raise or close × commands that come
by there, with and without `--json`. All places handle these alike, so the parts take turns.
"""

import json
import runpy
import shutil
from pathlib import Path

import pytest
from programs import importing, put_plugin

pytestmark = [pytest.mark.programs, pytest.mark.slow]

HERE = Path(__file__).parent
EXIT_CODES = {0, 1, 2, 3, 130}
RAISED = [*runpy.run_path(str(HERE / "hostile_plugin.py"))["RAISED"], "RecursionError"]
CLOSED = ["sys.stdout.close()", "os.close(1)", "sys.stderr.close()", "sys.stdout = None", "print"]
INTERRUPTIONS = {"KeyboardInterrupt", "KeyboardInterruptGroup"}

START = ["plugins", "registry list", "run echo.json", "mcp list", "--help"]
LISTS = ["plugins", "registry list", "run echo.json"]
RUNS = ["run hostile.json", "registry run hostile-node"]
RUNS += ["run parallel.json", "run batch.json", "run retry.json"]
BOTH = ["run echo.json", "run hostile.json"]
IMPORTS = [*RUNS, "registry validate"]
DO = ["hostile do"]
LOCKED = ["run echo.json --locked", "validate echo.json --locked"]
FINDS = ["registry list", "registry search node", "registry discover node"]
PLACES = {
    **dict.fromkeys(("import", "addhooks", "configure", "unconfigure"), START),
    **dict.fromkeys(("register_nodes", "register_nodes_late", "source_prefixes"), LISTS),
    "register_commands": ["plugins", "run echo.json", "hostile", "--version"],
    "inject_params": RUNS[:2],
    "validate_config": ["config check"],
    **dict.fromkeys(("check_lock", "check_lock_late"), LOCKED),
    **dict.fromkeys(("run_context", "context_enter", "context_exit"), BOTH),
    "context_of_class_enter": ["run echo.json"],
    "context_of_class_exit": ["run echo.json", "run missing-value.json"],
    "source_files": ["config path"],
    **dict.fromkeys(("source_fingerprint", "source_sketches"), FINDS),
    "source_get": ["registry describe hostile-node", "validate hostile.json", *RUNS[:2]],
    "source_entries": ["registry export", "registry validate"],
    "source_missing": ["registry describe hostile-nothing", "validate missing.json"],
    "source_unmet": ["validate hostile.json", "run hostile.json"],
    "source_check_use": ["validate hostile.json", *RUNS],
    "source_upgrade": ["validate hostile.json", "run echo.json"],
    **dict.fromkeys(("node_import", "node_init"), IMPORTS),
    **dict.fromkeys(("node_copy", "node_set_params", "node_prep", "node_exec"), RUNS),
    **dict.fromkeys(("node_exec_fallback", "node_post", "node_error"), RUNS),
    "node_async": ["run async.json"],
    **dict.fromkeys(("command", "report_text"), DO),
    "parsing": ["hostile parse"],
}
"""Each place, with commands that come by there."""
RAISE_ONLY = {"node_error"}
"""A place that hands over an exception."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with workflows, and with a site in which the hostile plugin is installed."""
    folder = tmp_path_factory.mktemp("hostile")
    put_plugin(folder / "site", "hostile", (HERE / "hostile_plugin.py").read_text())
    shutil.copy(HERE / "hostile_nodes.py", folder / "site")
    write_workflows(folder)
    return folder


@pytest.fixture
def play(pflow, folder):
    """Run command lines with the hostile plugin installed; return each trial and how it ended."""

    def play(trials):
        """Play trials, each `(place, how, words)`."""
        return [
            (trial, pflow(*words.split(), env=variables(place, how), cwd=folder))
            for trial in trials
            for place, how, words in [trial]
        ]

    def variables(place, how):
        return {**importing(folder / "site"), "HOSTILE": f"{place} {how}"}

    return play


@pytest.fixture(scope="module")
def usual():
    """The results of trials in which nothing is done, as far as they are known."""
    return {}


def write_workflows(folder):
    hostile = {"id": "a", "type": "hostile-node"}
    items = {"items": [1, 2, 3]}
    workflows = {
        "echo": [{"id": "a", "type": "echo", "params": {"message": "hello"}}],
        "hostile": [hostile],
        "async": [{"id": "a", "type": "hostile-async"}],
        "batch": [{**hostile, "batch": {**items, "error_handling": "continue"}}],
        "parallel": [{**hostile, "batch": {**items, "parallel": True}}],
        "retry": [{**hostile, "retry": {"max": 2, "wait": 0}}],
        "missing": [{"id": "a", "type": "hostile-nothing"}],
        "missing-value": [{"id": "a", "type": "read-file", "params": {"file_path": "/nowhere"}}],
        "text": [hostile, {"id": "b", "type": "echo", "params": {"message": "it says ${a.value}"}}],
        "items": [
            hostile,
            {"id": "b", "type": "echo", "params": {"message": "x"}, "batch": {"items": "${a.items}"}},
        ],
        "params": [hostile, {"id": "b", "type": "echo", "params": {"message": "${a.value}"}}],
    }
    for name, nodes in workflows.items():
        (folder / f"{name}.json").write_text(json.dumps({"nodes": nodes}))


def complaints(how, words, result):
    """Yield what is wrong with the result of a trial."""
    code, out, err = result.exit_code, result.stdout, result.stderr
    if "Traceback" in out + err:
        yield "a traceback"
    if code not in EXIT_CODES:
        yield f"exit code {code}"
    if code == 130 and how not in INTERRUPTIONS:
        yield "told as an interruption"
    if "--json" not in words:
        return
    try:
        envelope = json.loads(out)
    except ValueError:
        yield "no valid JSON"
        return
    if not isinstance(envelope, dict) or envelope.get("schema") != 1:
        yield "no envelope"
    elif envelope["success"] != (code == 0) and not (code == 130 and how in INTERRUPTIONS):
        yield f"success is {envelope['success']}, the exit code {code}"


def named(how, result):
    """Whether the plugin or the node is named, or the user's interruption is told."""
    words = result.stdout + result.stderr
    return "hostile (hostile 1.0)" in words or "hostile-" in words or "interrupted" in words


def report_of(trial, result, why):
    printed = f"{result.stdout[:600]!r}\n    {result.stderr[-600:]!r}"
    return f"{' | '.join(trial)}: {why}\n    {result.exit_code} {printed}"


def in_turn(place, hows, parts, *always):
    """Yield a trial for each how of one of the parts, every second with `--json`; commands take turns."""
    commands, first = PLACES[place], list(PLACES).index(place)
    for number, how in enumerate((*always, *hows[first % parts :: parts])):
        words = commands[(number // 2 + first) % len(commands)]
        plain = place == "report_text" or (number + first) % 2
        yield place, how, words if plain else f"{words} --json"


@pytest.mark.parametrize("place", PLACES)
def test_whatever_is_raised_is_a_failure_of_the_plugin_or_node_that_is_named(play, place):
    found = []
    for trial, result in play(in_turn(place, RAISED, 3, "KeyboardInterrupt")):
        _, how, words = trial
        whys = list(complaints(how, words, result))
        if not named(how, result) and how != "SystemExit(0)" and "batch" not in words:
            whys.append("nobody is named")
        if how in INTERRUPTIONS and result.exit_code != 130:
            whys.append(f"an interruption with exit code {result.exit_code}")
        found += [report_of(trial, result, why) for why in whys]
    assert not found, f"{len(found)} complaints\n" + "\n".join(found)


def is_lost(words, out, expected):
    if words == "run parallel.json --json":  # how many items have failed by then differs
        return json.loads(out).keys() != json.loads(expected).keys()
    return len(out) < len(expected) - 9  # times differ in length


@pytest.mark.parametrize("place", sorted(PLACES.keys() - RAISE_ONLY))
def test_closing_or_using_standard_output_does_not_take_the_answer_away(play, usual, place):
    trials = list(in_turn(place, CLOSED, 2))
    like = place if place == "node_exec_fallback" else "nowhere"  # that node fails by itself
    new = {(like, "nothing", words) for _, _, words in trials} - usual.keys()
    usual |= dict(play(new))
    found = []
    for trial, result in play(trials):
        _, how, words = trial
        expected = usual[like, "nothing", words]
        whys = list(complaints(how, words, result))
        if result.exit_code != expected.exit_code:
            whys.append(f"exit code {result.exit_code} instead of {expected.exit_code}")
        if is_lost(words, result.stdout, expected.stdout):
            whys.append("the answer is lost")
        found += [report_of(trial, result, why) for why in whys]
    assert not found, f"{len(found)} complaints\n" + "\n".join(found)


READ = ["exiting", "endless", "raising-key"]
VALUES = {
    "report_data": ("hostile do --json", 1),
    "report_beside": ("hostile do --json", 1),
    "report_error": ("hostile do --json", 1),
    "node_reports": ("run hostile.json --json", 1),
    "node_annotates": ("run hostile.json --json", 0),
    "node_outputs": ("run hostile.json --json", 0),
}
"""Each place where a value comes from, with the command that reads it and its exit code."""


def test_a_value_that_cannot_be_read_harms_nothing_or_is_a_failure_that_is_named(play):
    trials = {(place, how, words): code for place, (words, code) in VALUES.items() for how in READ}
    trials |= {("node_outputs", "endless", "run hostile.json"): 0}
    trials |= {("node_outputs", "raising-key", "registry run hostile-node"): 0}
    trials |= {("node_outputs", how, "run text.json --json"): 1 for how in READ}
    trials |= {("node_outputs", "exiting", "run params.json --json"): 0}
    trials |= {("node_items", "", "run items.json --json"): 1}
    trials |= {("node_action", "", "run hostile.json --json"): 1}
    trials |= {("injected", "", "run hostile.json --json"): 0}
    trials |= {("entry_extra", "", "registry describe hostile-node --json"): 0}
    found = []
    for trial, result in play(trials):
        whys = list(complaints(trial[1], trial[2], result))
        if result.exit_code != trials[trial]:
            whys.append(f"exit code {result.exit_code}, not {trials[trial]}")
        if result.exit_code and not named(trial[1], result) and "text.json" not in trial[2]:
            whys.append("nobody is named")
        found += [report_of(trial, result, why) for why in whys]
    assert not found, "\n".join(found)


def test_a_command_ends_with_a_documented_code_whatever_it_returns(play):
    ended = {
        ("command_returns", "3", "hostile do"): (1, "ended with exit code 3"),
        ("command_returns", "exit(7)", "hostile do --json"): (1, "ended with exit code 7"),
        ("command_returns", "0", "hostile do --json"): (0, ""),
        ("command_returns", "True", "hostile do"): (1, "it returned a bool, not a Report"),
        ("command_returns", "object", "hostile do --json"): (1, "it returned a Exiting, not a Report"),
        ("command_exits", "2", "hostile do --json"): (2, "ended with exit code 2"),
        ("command_exits", "9", "hostile do"): (1, "ended with exit code 9"),
        ("command", "SystemExit(7)", "hostile do --json"): (1, "ended with exit code 7"),
        ("command", "SystemExit(text)", "hostile do"): (1, "ended: enough"),
        ("command", "SystemExit(0)", "hostile do --json"): (0, ""),
        ("report_text", "number", "hostile do"): (1, "must return a string, it returned a int"),
        ("parsing", "", "hostile parse --json --unknown"): (2, "ended with exit code 2"),
    }
    for trial, result in play(ended):
        code, words = ended[trial]
        assert not list(complaints(trial[1], trial[2], result)), result
        assert result.exit_code == code, (trial, result)
        assert words in result.stderr, (trial, result)
        assert not words or "hostile (hostile 1.0)" in result.stderr


@pytest.mark.parametrize(
    ("place", "words", "code"),
    [
        ("invalid_command", "plugins --json", 0),
        ("invalid_context", "run echo.json --json", 1),
        ("invalid_missing", "registry describe hostile-nothing --json", 2),
        ("invalid_upgrade", "validate hostile.json --json", 0),
        ("invalid_problem", "config check --json", 0),
    ],
)
def test_an_answer_of_the_wrong_type_is_a_failure_of_the_plugin(play, place, words, code):
    ((_, result),) = play([(place, "", words)])
    assert (result.exit_code, list(complaints("", words, result))) == (code, []), result
    assert "Plugin hostile (hostile 1.0)" in result.stderr, result
