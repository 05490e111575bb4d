import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from node_types import ListedNodes, plugin_of
from prepared_starts import PROGRAM
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import Command, PflowError, Problem, Report, Suggestion, hookimpl
from pflow_mcp_plugin.host.cli.command_line import main
from pflow_mcp_plugin.host.standard_streams import is_of_output, to_json


@click.command()
@click.argument("words", nargs=-1)
@click.option("--fail", is_flag=True)
@click.pass_obj
def shout(host, words, fail):
    if fail:
        raise PflowError("hoarse", suggestions=("Rest",), problems=(Problem(message="throat", path="$.x"),))
    return Report(data={"words": words, "api": host.api}, text=" ".join(words).upper())


@click.command()
@click.pass_obj
def locate(host):
    return Report(data=host.paths.project and str(host.paths.project))


@click.command()
@click.option("--project")
@click.pass_obj
def locate_other(host, project):
    return Report(data=[host.paths.project and str(host.paths.project), project])


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1)
@click.pass_context
def sing(ctx, words):
    if words[0] not in ("la", "shout"):
        problem = f"No song {words[0]}"
        unknown = {"unknown": words[0]}
        raise PflowError(problem, details=unknown, suggestions=("Did you mean la?",), kind="not_found")
    if "off-key" in words:
        raise PflowError("No key", details={"unknown": "off-key"}, kind="not_found")
    return Report(data={"words": words, "path": ctx.command_path}, text=" ".join(words))


sing.complete_words = lambda words, incomplete, obj: [Suggestion(value=song) for song in ("la", "shout")]


@click.command()
@click.option("--json", is_flag=True, expose_value=False)
def nothing():
    return None


@click.command()
def crash():
    raise KeyError("volume")


@click.command()
@click.option("--json", is_flag=True, expose_value=False)
def prints():
    click.echo("beside the answer")
    return Report(data=1)


def announce(*commands):
    return SimpleNamespace(pflow_register_commands=hookimpl(lambda host: commands))


@pytest.fixture
def pflow(in_process):
    return in_process


def here(path, attribute, **options):
    return Command(path=path, help=f"Does {path[-1]}.", load=f"{__name__}:{attribute}", **options)


@pytest.fixture
def shouting(monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or SimpleNamespace(**globals()))
    loads = {"other": "locate_other"}
    names = "shout locate other crash prints nothing"
    return announce(
        *(here(("voice", name), loads.get(name, name)) for name in names.split()),
        Command(path=("voice", "broken"), help="Is not there.", load="nowhere_to_be_found:x"),
    )


@pytest.fixture
def singing(shouting):
    """A plugin whose group `voice` has a fallback."""
    return announce(here(("voice", "sing"), "sing", fallback=True), here(("voice", "shout"), "shout"))


def envelope(text):
    """The one JSON object on standard output, and nothing else."""
    data = json.loads(text)
    assert data["schema"] == 1
    return data


@pytest.mark.parametrize(
    ("words", "begins", "contains"), [((), "Usage: pflow ", "--project"), (("--version",), "pflow ", "")]
)
def test_alone_it_prints_its_help_and_it_has_a_version(pflow, words, begins, contains):
    code, out, err = pflow(*words)
    assert (code, err) == (0, "")
    assert out.startswith(begins)
    assert contains in out


def test_groups_are_listed_apart_from_commands_each_with_the_line_that_its_commands_have_for_it(pflow):
    voice = announce(
        here(("voice", "shout"), "shout", group="Say things."), here(("voice", "hum"), "shout", group="No.")
    )
    code, out, _ = pflow("--help", plugins=[voice, announce(here(("silence", "keep"), "shout"))])
    commands, _, groups = out.partition("\nGroups:\n")
    assert code == 0
    assert "Run a workflow." in commands
    assert "workflow  Save" not in commands
    assert "  voice     Say things." in groups
    assert "  silence   keep" in groups  # nobody described it
    assert "Say things." in pflow("voice", plugins=[voice])[1]


def test_a_report_is_printed_for_people_or_as_the_envelope_and_json_counts_before_the_double_dash(
    pflow, shouting
):
    assert pflow("voice", "shout", "hey", plugins=[shouting]) == (0, "HEY\n", "")
    code, out, err = pflow("voice", "shout", "hey", "--json", plugins=[shouting])
    assert (code, err) == (0, "")
    assert envelope(out) == {"schema": 1, "success": True, "data": {"words": ["hey"], "api": [1, 0]}}
    assert envelope(pflow("--json", "voice", "shout", plugins=[shouting])[1])["success"]
    assert pflow("voice", "shout", "--", "--json", plugins=[shouting]) == (0, "--JSON\n", "")


@pytest.mark.parametrize("place", [None, 0, 1, 2])
def test_the_project_in_the_current_folder_is_used_where_its_option_is_given(
    pflow, shouting, tmp_path, monkeypatch, place
):
    monkeypatch.chdir(tmp_path)
    words = ["voice", "locate"]
    if place is not None:
        words.insert(place, "--project")
    found = envelope(pflow(*words, "--json", plugins=[shouting])[1])["data"]
    assert found == (None if place is None else str(tmp_path))
    for setting, expected in (("1", str(tmp_path)), ("0", found)):
        monkeypatch.setenv("PFLOW_PROJECT", setting)
        assert envelope(pflow(*words, "--json", plugins=[shouting])[1])["data"] == expected


def test_a_command_with_its_own_option_of_that_name_keeps_it(pflow, shouting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("voice", "other", "--project", "mine", "--json")
    assert envelope(pflow(*words, plugins=[shouting])[1])["data"] == [None, "mine"]
    there = envelope(pflow("--project", *words, plugins=[shouting])[1])["data"]
    assert there == [str(tmp_path), "mine"]


def test_a_deleted_current_folder_is_no_project(pflow, shouting, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for relative in ("", "relative"):
        monkeypatch.setenv("PFLOW_HOME", relative or str(tmp_path))
        code, _, err = pflow(*([] if relative else ["--project"]), "voice", "locate", plugins=[shouting])
        gone = "Error: The current folder was deleted\n  -> Change to a folder that exists\n"
        assert (code, err) == (2, gone)
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("PFLOW_PROJECT", "1")
    assert envelope(pflow("voice", "locate", "--json", plugins=[shouting])[1])["data"] is None


def test_a_failure_is_told_with_its_problems_and_next_steps(pflow, shouting):
    code, out, err = pflow("voice", "shout", "--fail", plugins=[shouting])
    assert (code, out) == (1, "")
    assert err.splitlines() == ["Error: hoarse", "  - $.x: throat", "  -> Rest"]
    code, out, err = pflow("voice", "shout", "--fail", "--json", plugins=[shouting])
    assert (code, err) == (1, "Error: hoarse\n")
    error = envelope(out)["error"]
    assert (error["type"], error["message"], error["suggestions"]) == ("execution", "hoarse", ["Rest"])
    assert error["details"]["problems"][0]["path"] == "$.x"


@pytest.mark.parametrize(
    ("line", "message", "command"),
    [
        ("", "a command is missing", ""),
        ("voice shot", "No such command: pflow voice shot", ""),
        ("voice shout --loud", "No such option", "voice shout"),
        ("registry describe", "Missing argument", "registry describe"),
        ("registry search x --limit 0", "Invalid value", "registry search"),
        ("run w.json title", "Invalid input 'title'", ""),
    ],
)
def test_wrong_usage_is_one_object_and_exit_code_2_and_leads_to_the_help(
    pflow, shouting, line, message, command
):
    code, out, err = pflow("--json", *line.split(), plugins=[shouting])
    error = envelope(out)["error"]
    assert (code, error["type"]) == (2, "usage")
    assert message in error["message"]
    assert message in err
    told = pflow(*line.split(), plugins=[shouting])[2]
    assert not command or told.endswith(f"  -> See: pflow {command} --help\n")


def test_words_that_name_no_command_of_a_group_go_to_its_fallback(pflow, singing):
    assert pflow("voice", "la", "--la", "x y", plugins=[singing]) == (0, "la --la x y\n", "")
    assert pflow("voice", "sing", "la", plugins=[singing]) == (0, "la\n", "")
    code, out, _ = pflow("--json", "voice", "la", plugins=[singing])
    assert (code, envelope(out)["data"]) == (0, {"words": ["la"], "path": "pflow voice"})


def test_a_command_wins_over_a_word_that_the_fallback_knows_but_wrong_arguments_lead_to_it(pflow, singing):
    assert pflow("voice", "shout", "hey", plugins=[singing])[1] == "HEY\n"
    assert pflow("voice", "sing", "shout", "hey", plugins=[singing])[1] == "shout hey\n"
    code, _, err = pflow("voice", "shout", "--loud", "x y", plugins=[singing])
    assert code == 2
    assert err.endswith("  -> If the command shout is not meant: pflow voice sing shout --loud 'x y'\n")
    assert "is not meant" not in pflow("voice", "shout", "--fail", plugins=[singing])[2]
    assert "is not meant" not in pflow("plugins", "--loud", plugins=[singing])[2]


def test_the_help_of_a_group_says_what_its_fallback_is_and_imports_nothing(pflow):
    sing = Command(path=("voice", "sing"), help="Sing.", load="nowhere:x", fallback=True)
    hidden = Command(path=("voice", "hum"), help="Hum.", load="nowhere:x", hidden=True)
    for arguments in (("voice",), ("voice", "--help")):
        code, out, _ = pflow(*arguments, plugins=[announce(sing, hidden)])
        assert code == 0
        assert "Sing." in out
        assert "Hum." not in out
        assert "Any other word goes to sing: `pflow voice X` is `pflow voice sing X`." in out


def test_a_second_fallback_of_a_group_is_refused_naming_both_plugins_and_stays_a_command(pflow, singing):
    second = announce(here(("voice", "hum"), "shout", fallback=True))
    code, out, err = pflow("voice", "la", plugins=[singing, second])
    assert (code, out) == (0, "la\n")
    assert "plugin-1: `voice hum` cannot be a fallback too: `voice sing` of the plugin plugin-0 is one" in err
    assert pflow("voice", "hum", "x", plugins=[singing, second])[1] == "X\n"


def test_a_task_in_place_of_a_command_leads_to_the_planner(pflow, shouting):
    code, _, err = pflow("find Zoë's bugs", plugins=[announce(here(("plan",), "shout"))])
    assert code == 2
    assert "To make a workflow from words: pflow plan 'find Zoë'\"'\"'s bugs'" in err


def test_the_command_of_a_disabled_plugin_names_the_plugin(install, monkeypatch, capsys):
    install("voice", "")
    monkeypatch.setenv("PFLOW_DISABLE_PLUGINS", "voice")
    assert main(["voice"]) == 2
    assert "voice (dist-voice 1.0) is disabled" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "code", "kind", "message"),
    [
        ("crash", 1, "execution", "KeyError: 'volume'"),
        ("broken", 2, "config", "could not load the command `pflow voice broken`: ModuleNotFoundError"),
    ],
)
def test_a_command_that_breaks_is_told_without_a_traceback(pflow, shouting, command, code, kind, message):
    found, out, err = pflow("--json", "voice", command, plugins=[shouting])
    assert found == code
    assert message in err
    assert "Traceback" not in err
    error = envelope(out)["error"]
    assert error["type"] == kind
    assert message in error["message"]


def test_a_command_that_prints_itself_or_reports_nothing_still_gives_an_envelope(pflow, shouting):
    for command, data, said in (("prints", 1, "beside the answer\n"), ("nothing", None, "")):
        code, out, err = pflow("voice", command, "--json", plugins=[shouting])
        assert (code, envelope(out)["data"], err) == (0, data, said)


def test_standard_output_is_only_for_what_a_command_prints_not_for_plugins_around_it(pflow, shouting):
    hooks = ("pflow_configure", "pflow_unconfigure")
    loud = SimpleNamespace(**{name: hookimpl(lambda host, name=name: print(name)) for name in hooks})
    told = "pflow_configure\npflow_unconfigure\n"
    assert pflow("voice", "prints", plugins=[shouting, loud]) == (0, "beside the answer\n", told)


def test_a_word_that_the_fallback_does_not_know_either_names_the_nearest_of_both(pflow, singing):
    code, _, err = pflow("voice", "shuot", plugins=[singing])
    steps = ["  -> Did you mean pflow voice shout?", "  -> Did you mean la?"]
    assert (code, err.splitlines()[1:]) == (2, steps)
    assert pflow("voice", "sing", "shuot", plugins=[singing])[2].startswith("Error: No song shuot\n")
    assert pflow("voice", "la", "off-key", plugins=[singing])[::2] == (2, "Error: No key\n")


def test_commands_that_clash_are_reported_and_the_first_one_stays(pflow, shouting):
    paths = (("voice", "shout"), ("voice",), ("run", "x"))
    clashing = announce(*(here(path, "crash") for path in paths), "text")
    code, out, err = pflow("voice", "shout", "hey", plugins=[shouting, clashing])
    assert (code, out) == (0, "HEY\n")
    assert "`voice shout` is already provided by the plugin plugin-0" in err
    assert "`voice` is already a group" in err
    assert "`run x` is below another command" in err
    assert "'text' is not a Command" in err


def test_the_registry_is_listed_searched_described_and_exported(pflow):
    rows = envelope(pflow("registry", "list", "--filter", "file", "--json")[1])["data"]
    verbs = ("copy-file", "delete-file", "list-files", "move-file", "read-file", "write-file")
    assert [row["node"] for row in rows] == [*verbs]
    assert "NODE" in pflow("registry", "list")[1]
    assert "No node type contains 'zz'" in pflow("registry", "list", "--filter", "zz")[1]
    found = envelope(pflow("registry", "search", "read", "--limit", "1", "--json")[1])["data"]
    assert (found[0]["node"], found[0]["score"] > 0) == ("read-file", True)
    described = envelope(pflow("registry", "describe", "echo", "--json")[1])["data"]
    assert described["interface"]["params"][0]["key"] == "message"
    described = pflow("registry", "describe", "write-file")[1].partition("Parameters:")[2]
    params, _, outputs = described.partition("Outputs:")
    required = {line.split()[0]: " required " in f"{line} " for line in params.split("\n") if line}
    assert (required["file_path"], required["append"]) == (True, False)
    assert " required " not in outputs
    assert "echo" in json.loads(pflow("registry", "export")[1])["nodes"]


def test_a_search_says_how_many_more_there_are(pflow):
    total = envelope(pflow("registry", "search", "text", "--json")[1])["total"]
    assert total > 2
    for more in (2, 1):
        last = pflow("registry", "search", "text", "--limit", str(total - more))[1].splitlines()[-1]
        assert last == f"{more} more found; to see all: --limit {total}"
    assert "more" not in pflow("registry", "search", "text", "--limit", str(total))[1].splitlines()[-1]
    for nothing in ("xyzzy", "???"):
        assert envelope(pflow("registry", "search", nothing, "--json")[1])["total"] == 0


@pytest.mark.parametrize(
    "command", [("registry", "search"), ("registry", "discover"), ("workflow", "discover")]
)
def test_a_limit_may_be_larger_than_anything_that_is_counted(pflow, command):
    code, out, err = pflow(*command, "file", "--limit", str(2**63), "--json")
    assert (code, err) == (0, "")
    assert envelope(out)["data"] == envelope(pflow(*command, "file", "--limit", "100", "--json")[1])["data"]


ECHO = {"module": "pflow_mcp_plugin.host.nodes.value_nodes", "class_name": "Echo"}


def test_every_mistake_in_the_registry_is_told(pflow, saved):
    params = [{"key": "a", "type": "strng"}, {"key": "a"}]
    saved(
        gone={**ECHO, "module": "no_such_module"},
        number={"module": "builtins", "class_name": "int"},
        odd={**ECHO, "interface": {"params": params}},
        shapeless=3,
        untyped={**ECHO, "interface": {"outputs": [{"key": 3}]}},
        sound=ECHO,
    )
    code, out, err = pflow("registry", "validate", "--json")
    messages = [item["message"] for item in envelope(out)["error"]["details"]["problems"]]
    assert code == 2
    parts = ["shapeless is left out", "untyped is left out", "Node gone (gone) cannot be loaded"]
    parts += ["number: ", "odd: params a ", "odd: params has a twice"]
    assert [part in message for message, part in zip(messages, parts, strict=True)] == [True] * 6
    assert "Warning" not in err
    code, _, err = pflow("registry", "validate", "ecko", "sound", "ecko")
    assert (code, err.count("Unknown node type ecko")) == (2, 1)
    assert pflow("registry", "list")[0] == 0


def test_an_overwritten_entry_is_worth_a_warning_and_no_mistake(pflow, saved):
    saved(echo=ECHO)
    told = "Node type echo of registry.json is overwritten by that of pflow"
    for arguments in (("--all",), ("echo",)):
        code, out, err = pflow("registry", "validate", *arguments)
        assert (code, err) == (0, "")
        assert out.endswith(f" checked, no problems found\n  - warning: {told}\n")
    assert pflow("registry", "validate", "echo", "--all")[0] == 2
    saved(echo=ECHO, odd=3)
    code, _, err = pflow("registry", "validate")
    assert code == 2
    assert "The registry has 1 error and 1 warning\n" in err
    assert f"  - warning: {told}" in err


def test_a_source_that_breaks_is_a_mistake_of_the_registry(pflow):
    broken = ListedNodes("voice")
    broken.entries = lambda: 1 / 0
    code, _, err = pflow("registry", "validate", plugins=[plugin_of(broken)])
    assert code == 2
    assert "failed to list its nodes" in err


def test_plugins_are_listed_with_what_they_bring(pflow, shouting):
    rows = {row["name"]: row for row in envelope(pflow("plugins", "--json", plugins=[shouting])[1])["data"]}
    assert rows["pflow-nodes"]["sources"][0]["name"] == "pflow"
    assert "voice shout" in rows["plugin-0"]["commands"]
    assert rows["plugin-0"]["hooks"] == ["pflow_register_commands"]
    assert "plugin-0  registered by hand  loaded" in pflow("plugins", plugins=[shouting])[1]


def test_config_path_names_every_file_with_its_role_and_what_a_source_reads(pflow, home, tmp_path):
    (home / "config").mkdir(parents=True)
    (home / "config" / "voice.toml").touch()
    source = ListedNodes("voice")
    source.files = {tmp_path / "voices": "recorded voices"}
    rows = envelope(pflow("config", "path", "--json", plugins=[plugin_of(source)])[1])["data"]
    found = {row["path"]: (row["role"], row["exists"]) for row in rows}
    assert found[str(home / "config" / "settings.json")] == ("settings", False)
    assert found[str(home / "config" / "voice.toml")] == ("config of a plugin", True)
    assert found[str(tmp_path / "voices")] == ("recorded voices", False)


def test_config_check_asks_every_plugin_and_fails_for_an_error(pflow, home):
    soft = Problem(message="soft", severity="warning")
    warning = SimpleNamespace(pflow_validate_config=hookimpl(lambda host: [soft]))
    code, out, _ = pflow("config", "check", plugins=[warning])
    assert code == 0
    assert "soft" in out
    (home / "config").mkdir(parents=True)
    (home / "config" / "settings.json").write_text("{oops")
    code, out, _ = pflow("config", "check", "--json", plugins=[warning])
    error = envelope(out)["error"]
    assert (code, error["type"]) == (2, "config")
    assert [problem["severity"] for problem in error["details"]["problems"]].count("error") == 1
    assert "soft" in [problem["message"] for problem in error["details"]["problems"]]


def test_config_check_names_another_distribution_with_our_script(pflow, install, tmp_path):
    install("other", "", distribution="pflow-other")
    (points,) = (tmp_path / "site").glob("*/entry_points.txt")
    points.write_text("[console_scripts]\npflow = other.cli:main\n")
    assert "pflow-other 1.0 and" in pflow("config", "check")[1]


def workflow(tmp_path, **changes):
    path = tmp_path / "flow.json"
    node = step("say", "echo", {"message": "${words}"})
    outputs = {"said": {"source": "${say.message}"}}
    path.write_text(json.dumps(flow(node, inputs={"words": {"type": "str"}}, outputs=outputs) | changes))
    return str(path)


def test_a_check_counts_errors_and_warnings_apart(pflow, tmp_path):
    nodes = [step("a", "echo", {"message": "${nowhere}"}), {"id": "b", "type": "echo", "parms": {}}]
    _, _, err = pflow("validate", workflow(tmp_path, nodes=nodes, inputs={}, outputs={}))
    lines = [line for line in err.splitlines() if line.startswith("  - ")]
    assert [line.startswith("  - warning: ") for line in lines].count(True) == 1
    assert err.splitlines()[0].endswith(" has 2 errors and 1 warning")


def test_a_problem_that_several_nodes_share_has_one_line_with_their_places(pflow, tmp_path):
    nodes = [step(f"n{number}", "eco", {"message": "x"}) for number in range(8)]
    path = workflow(tmp_path, nodes=nodes, inputs={}, outputs={})
    _, _, err = pflow("validate", path)
    [line] = [line for line in err.splitlines() if "eco" in line]
    assert err.splitlines()[0] == f"Error: {path} has 8 errors"
    assert line.startswith("  - $.nodes[0].type (line 1, column ")
    assert line.endswith("$.nodes[4].type (line 1), $.nodes[5].type (line 1) and 2 more")
    problems = envelope(pflow("validate", path, "--json")[1])["error"]["details"]["problems"]
    assert len(problems) == 8


def test_a_workflow_without_data_flows_is_said_to_have_none(pflow, tmp_path):
    path = workflow(tmp_path)
    assert pflow("validate", path)[1] == f"{path} is valid\n"
    assert pflow("validate", path, "--flows")[1].startswith(f"{path} is valid\nNo data flows found: ")
    assert envelope(pflow("validate", path, "--flows", "--json")[1])["data"]["flows"] == []


def test_an_input_given_twice_is_refused(pflow, tmp_path):
    assert "given twice" in pflow("run", workflow(tmp_path), "words=a", "words=b")[2]


def test_values_that_json_lacks_are_text_and_those_that_hold_themselves_or_are_endless_are_cut():
    text = to_json({"nan": float("nan"), 1: {2}, "bytes": b"x", "list": (1, None, True)})
    assert json.loads(text) == {"nan": "nan", "1": [2], "bytes": "b'x'", "list": [1, None, True]}
    loop = {"name": "a"}
    loop["self"] = [loop, loop]
    deep = []
    for _ in range(5_000):
        deep = [deep]
    found = json.loads(to_json({"loop": loop, "deep": deep, "huge": 10**5_000, 10**5_000: 1}))
    assert found["loop"] == {"name": "a", "self": ["...", "..."]}
    assert found["huge"] == hex(10**5_000)
    assert "..." in json.dumps(found["deep"])


def run_program(*arguments, command=PROGRAM, **options):
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([*command, *arguments], timeout=60, check=False, **{**piped, **options})


def test_standard_input_is_read_only_for_the_input_that_declares_it(tmp_path):
    piped = workflow(tmp_path, inputs={"words": {"type": "str", "stdin": True}})
    assert run_program("run", piped, input="ü".encode()).stdout.decode() == "ü\n"
    plain = workflow(tmp_path)
    reading, writing = os.pipe()  # never written to: reading it would wait for ever
    assert run_program("run", plain, "words=x=y", stdin=reading).stdout == b"x=y\n"
    os.close(writing)
    os.close(reading)


@pytest.mark.parametrize(("more", "told"), [({"default": 3}, b"3\n"), ({"required": False}, b"null\n")])
def test_nothing_piped_in_leaves_an_input_that_can_do_without_as_it_is(tmp_path, more, told):
    number = {"type": "int", "stdin": True}
    nodes = [step("say", "echo", {"message": "hello"})]
    path = workflow(tmp_path, nodes=nodes, inputs={"words": number | more}, outputs={"said": "${words}"})
    done = run_program("run", path, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (0, told, b"")
    refused = run_program("run", workflow(tmp_path, inputs={"words": number}), stdin=subprocess.DEVNULL)
    assert refused.returncode == 2
    assert b"must be int" in refused.stderr


def test_any_text_is_printed_in_any_locale(tmp_path):
    path = workflow(tmp_path)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run_program("run", path, b"words=\xc3\xbc\xff", "--json", env=environment)
    assert done.stderr == b""
    assert json.loads(done.stdout)["success"]


def test_a_closed_pipe_ends_silently(tmp_path):
    for words in ("registry list --json", "--help", "run --help"):
        reading, writing = os.pipe()
        os.close(reading)
        done = run_program(*words.split(), stdout=writing)
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def full():
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Path("/dev/full").open("wb") as file:
        yield file


NO_SPACE = (1, b"Error: the output could not be written: No space left on device\n")


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [("registry list", ""), ("registry list", "1"), ("--version", ""), ("--help", ""), ("run --help", "1")],
)
def test_output_that_cannot_be_written_is_a_failure(full, words, unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = run_program(*words.split(), stdout=full, env=environment)
    assert (done.returncode, done.stderr) == NO_SPACE


def test_a_folder_that_was_deleted_is_no_failure_of_the_output(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), write_through=True))
    assert is_of_output(OSError(errno.ENOSPC, "no space"))
    assert not is_of_output(FileNotFoundError(errno.ENOENT, "no folder"))


@pytest.mark.parametrize("how", ["sys.stdout.close()", "sys.stdout = None"])
def test_a_full_disk_is_told_where_a_plugin_took_the_stream_away(full, how):
    code = "from pflow_mcp_plugin.host.standard_streams import Streams"
    code = f"import sys; {code}; streams = Streams(); {how}; sys.exit(streams.answer('x'))"
    done = run_program(command=(sys.executable, "-P", "-c", code), stdout=full)
    assert (done.returncode, done.stderr) == NO_SPACE


def test_a_warning_that_cannot_be_written_stops_nothing(saved, full):
    saved("{")
    done = run_program("registry", "list", stderr=full)
    assert done.returncode == 0
    assert b"echo" in done.stdout


@pytest.mark.parametrize("closed", [1, 2])
def test_a_stream_that_is_closed_from_the_start_stops_nothing(home, closed):
    done = run_program("registry", "list", command=("sh", "-c", f'"$@" {closed}>&-', "sh", *PROGRAM))
    assert (done.returncode, done.stderr) == (0, b"")


def test_discover_prints_complete_interfaces_with_confidence_and_reason(pflow, home, monkeypatch):
    monkeypatch.delenv("PFLOW_DISCOVER_MODEL", raising=False)
    words = ("registry", "discover", "read", "a text file", "--limit", "1", "--json")
    code, out, err = pflow(*words)
    assert (code, err, envelope(out)["ranked_by"]) == (0, "", "words")
    [brief], [found] = envelope(out)["data"], envelope(pflow(*words, "--full")[1])["data"]
    assert brief.keys() == {"node", "description", "params", "outputs", "confidence", "reason"}
    assert (brief["params"]["file_path"], brief["params"]["encoding"]) == ("str, required", "str")
    assert brief["outputs"] == {it["key"]: it["type"] for it in found["interface"]["outputs"]}
    entry = envelope(pflow("registry", "describe", "read-file", "--json")[1])["data"]
    assert found["score"] > 0
    assert {key: found[key] for key in entry} == entry
    assert found["confidence"] >= 0.95
    assert found["reason"] == '"read", "file" in its name; "text" in its description'
    head, first, *_ = pflow("registry", "discover", "read a text file")[1].splitlines()
    assert head.split()[:2] == ["NODE", "CONFIDENCE"]
    assert first.split()[0] == "read-file"
    assert pflow("registry", "discover", "xyzzy")[1] == "Nothing matches 'xyzzy'\n"


def test_unknown_nodes_are_all_named_and_the_known_ones_still_described(pflow):
    words = ("registry", "describe", "ecko", "read-file", "no-such-node")
    code, out, _ = pflow(*words, "--json")
    error = envelope(out)["error"]
    assert (code, error["type"]) == (2, "not_found")
    problems = [(problem["message"], problem["suggestion"]) for problem in error["details"]["problems"]]
    assert problems[0] == ("Unknown node type ecko", "Did you mean echo?")
    assert problems[1][0] == "Unknown node type no-such-node"
    assert [entry["node"] for entry in error["details"]["entries"]] == ["read-file"]
    assert pflow(*words)[1].splitlines()[0] == "read-file"
    known = envelope(pflow("registry", "describe", "write-file", "echo", "echo", "--json")[1])["data"]
    assert [entry["node"] for entry in known] == ["write-file", "echo"]


def test_one_node_is_run_and_the_structure_of_its_outputs_shown(pflow, home, tmp_path):
    (tmp_path / "note.txt").write_text("hello ${you}")
    code, out, _ = pflow("registry", "run", "read-file", f"file_path={tmp_path / 'note.txt'}", "--json")
    found = envelope(out)
    assert code == 0
    assert found["data"]["outputs"]["content"] == "hello ${you}"
    assert {"path": "content", "type": "str", "sample": "hello ${you}"} in found["data"]["structure"]
    assert found["trace_path"]
    (tmp_path / "note.txt").write_text("hello")
    assert "hello" in pflow("registry", "run", "echo", f"message=@{tmp_path / 'note.txt'}")[1]
    for text in ("${not} [1]", '{"a":1}'):  # what takes anything takes it as it is written
        code, out, _ = pflow("registry", "run", "echo", f"message={text}")
        assert code == 0
        assert out.split()[:3] == ["PATH", "TYPE", "SAMPLE"]
        assert out.splitlines()[1].split(maxsplit=2) == ["message", "str", text]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ('["printf", "%s|", "a b", "${HOME}", "\\u0024{x}", "$(id)"]', "a b|${HOME}|${x}|$(id)|"),
        ("printf '%s|' '[\"a\"]'", '["a"]|'),
        ("[ -n x ] && printf yes", "yes"),
    ],
)
def test_a_parameter_for_lists_and_text_takes_a_json_array_as_a_list(pflow, home, command, said):
    code, out, err = pflow("registry", "run", "shell", f"command={command}", "--json")
    assert (code, err) == (0, "")
    assert envelope(out)["data"]["outputs"]["stdout"] == said


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["read-fil"], 2, "Unknown node type read-fil"),
        (["read-file", "file_path"], 2, "Invalid input 'file_path'"),
        (["read-file", "file_path=/nowhere/to/be/found"], 1, "/nowhere/to/be/found"),
    ],
)
def test_a_node_that_cannot_be_run_says_why(pflow, home, arguments, code, message):
    found, out, err = pflow("registry", "run", *arguments)
    assert (found, out) == (code, "")
    assert message in err


def test_a_failed_run_shows_beside_the_error_what_each_node_wrote(pflow, home, tmp_path):
    nodes = [step("say", "echo", {"message": "hello"}), step("no", "read-file", {"file_path": "/nowhere"})]
    path = workflow(tmp_path, nodes=nodes, inputs={}, outputs={})
    code, out, _ = pflow("run", path, "--json")
    assert code == 1
    assert envelope(out)["checkpoint"]["say"] == {"message": "hello"}
    assert "No such file" in envelope(out)["checkpoint"]["no"]["error"]
    assert "checkpoint" not in pflow("run", path)[2]
    path = workflow(tmp_path, nodes=nodes[:1], inputs={}, outputs={})
    assert "checkpoint" not in envelope(pflow("run", path, "--json")[1])


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("-h",), "Usage: pflow [OPTIONS]"),
        (("workflow", "help", "save"), "Usage: pflow workflow save "),
        (("workflow", "save", "-h"), "Usage: pflow workflow save "),
        (("help", "echo"), "Usage: pflow echo "),
    ],
)
def test_help_is_asked_for_in_every_usual_way(pflow, words, usage):
    code, out, _ = pflow(*words)
    assert (code, out[: len(usage)]) == (0, usage)


def test_standard_input_that_is_not_utf8_is_refused(tmp_path):
    path = workflow(tmp_path, inputs={"words": {"type": "str", "stdin": True}})
    done = run_program("run", path, input=b"caf\xe9")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Standard input is not UTF-8 text (byte 3)" in done.stderr


def test_standard_input_that_cannot_be_read_is_a_mistake_with_its_reason(pflow, monkeypatch):
    with Path(os.devnull).open("w") as only_written:
        monkeypatch.setattr(sys, "stdin", only_written)
        code, _, err = pflow("settings", "set", "KEY", "-")
    assert (code, err) == (2, "Error: Standard input cannot be read: Bad file descriptor\n")
