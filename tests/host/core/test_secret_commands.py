import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ended_processes import gone
from system_limits import ordinary_user

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host import stored_settings
from pflow_mcp_plugin.host.stored_settings import CommandAnswers, StoredSettings, command_words
from pflow_mcp_plugin.storage import CorruptFile


def python(code):
    return [sys.executable, "-c", code]


SLEEPING = python("import time; time.sleep(600)")


@pytest.fixture
def counting(tmp_path):
    marks = tmp_path / "marks"
    return python(f"open({str(marks)!r}, 'a').write('x'); print('planted-4711')"), marks


def test_the_words_of_a_command_are_split_as_a_shell_splits_them_and_nothing_is_expanded():
    words = command_words("op read 'op://My Vault/token' $HOME *")
    assert words == ["op", "read", "op://My Vault/token", "$HOME", "*"]


@pytest.mark.parametrize("command", ["", "   ", "op 'read", "''"])
def test_a_command_without_a_program_is_refused(command):
    with pytest.raises(PflowError) as caught:
        command_words(command)
    assert caught.value.kind == "usage"


@pytest.mark.parametrize(
    ("printed", "value"), [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), (" a ", " a "), ("{x}", "{x}")]
)
def test_one_final_line_end_does_not_belong_to_the_value(printed, value):
    command = python(f"import sys; sys.stdout.buffer.write({printed.encode()!r})")
    assert CommandAnswers().ask("KEY", command) == value


def test_a_command_is_asked_once_by_threads_that_need_it_at_the_same_time(counting):
    command, marks = counting
    answers = CommandAnswers()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: answers.ask("KEY", command), range(4)))
    assert answers.ask("OTHER", command) == "planted-4711"
    assert marks.read_text() == "x"
    failing = python(f"open({str(marks)!r}, 'a').write('y'); exit(3)")
    for _ in range(2):  # a failure is remembered too
        with pytest.raises(PflowError):
            answers.ask("KEY", failing)
    assert marks.read_text() == "xy"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; print('planted-4711'); print('planted-4712', file=sys.stderr); exit(3)", "exited 3"),
        ("import os, signal; print('planted-4711'); os.kill(os.getpid(), signal.SIGTERM)", "signal"),
        ("print()", "printed nothing"),
        ("import os; os.write(1, b'planted-4711 \\xff')", "not UTF-8"),
        ("while True: print('planted-4711' * 1000)", "printed more than 1024 KiB"),
    ],
)
def test_a_failure_names_the_key_and_the_program_and_not_what_it_printed(code, words):
    with pytest.raises(PflowError) as caught:
        CommandAnswers().ask("GITHUB_TOKEN", python(code))
    shown = json.dumps(caught.value.to_dict())
    assert "GITHUB_TOKEN" in shown
    assert sys.executable.rpartition("/")[2] in caught.value.message
    assert words in caught.value.message
    assert "planted" not in shown
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("program", ["/nowhere/op", "a\x00b"])
def test_a_program_that_is_not_there_is_named(program):
    with pytest.raises(PflowError, match="could not be started"):
        CommandAnswers().ask("KEY", [program, "read"])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the check reads /proc")
def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_settings, "DEADLINE", 2)
    marks = tmp_path / "pid"
    # It ends at once; what it started keeps its output open.
    code = f"import subprocess; child = subprocess.Popen({SLEEPING!r})\n"
    code += f"open({str(marks)!r}, 'w').write(str(child.pid))"
    with pytest.raises(PflowError, match="took longer than 2 seconds"):
        CommandAnswers().ask("KEY", python(code))
    assert gone(int(marks.read_text()))


def test_a_command_gets_no_input_and_no_terminal():
    code = "import sys; print(repr(sys.stdin.read()), sys.stdin.isatty())"
    asking = (
        "import json, sys; from pflow_mcp_plugin.host.stored_settings import CommandAnswers;"
        "print(CommandAnswers().ask('KEY', json.loads(sys.argv[1])))"
    )
    # What is piped into pflow is for its workflow.
    asked = [sys.executable, "-P", "-c", asking, json.dumps(python(code))]
    done = subprocess.run(asked, input="piped", capture_output=True, text=True, check=True)
    assert done.stdout == "'' False\n"


def test_a_key_has_one_source_and_the_last_one_set_counts(tmp_path, counting):
    command, _ = counting
    settings = StoredSettings(tmp_path / "settings.json")
    settings.set("KEY", "value")
    settings.set_command("KEY", command)
    assert settings.names() == {"KEY": "command"}
    assert settings.values() == {}
    assert settings.get("KEY") == "planted-4711"
    settings.set("KEY", "value")
    assert settings.names() == {"KEY": "file"}
    assert settings.get("KEY") == "value"
    settings.set_command("KEY", command)
    assert settings.unset("KEY")
    assert settings.get("KEY") is None


@pytest.mark.parametrize("commands", ['["op"]', '{"KEY": "op read"}', '{"KEY": []}', '{"KEY": [1]}'])
def test_commands_in_another_shape_are_refused(tmp_path, commands):
    path = tmp_path / "settings.json"
    path.write_text(f'{{"commands": {commands}}}')
    path.chmod(0o600)
    [problem] = StoredSettings(path).check()
    assert '"commands" must be an object of lists of words' in problem.message


def test_the_program_saves_a_command_and_lists_it_without_running_it(pflow, tmp_path, counting):
    command, marks = counting
    line = f"{sys.executable} {tmp_path / 'secret.py'}"
    (tmp_path / "secret.py").write_text(command[2])
    done = pflow("settings", "set", "TOKEN", "--from-command", line, "--json")
    assert done.envelope["data"] == {"key": "TOKEN", "place": "command", "program": sys.executable}
    [listed] = pflow("settings", "list", "--json").envelope["data"]
    assert listed == {**done.envelope["data"], "value": "****"}
    assert f"command ({sys.executable})" in pflow("settings", "list").stdout
    assert not marks.exists()
    assert pflow("settings", "get", "TOKEN").stdout == "****\n"
    assert pflow("settings", "get", "TOKEN", "--show").stdout == "planted-4711\n"


@pytest.mark.parametrize(
    "arguments",
    [("VALUE", "--from-command", "op"), ("--keyring", "--from-command", "op"), (), ("--from-command", "'")],
)
def test_a_command_and_a_value_exclude_each_other(pflow, arguments):
    assert pflow("settings", "set", "TOKEN", *arguments).exit_code == 2
    assert pflow("settings", "list", "--json").envelope["data"] == []


def test_a_value_is_read_as_text_and_seen_when_it_changes(tmp_path):
    settings = StoredSettings(tmp_path / "settings.json")
    assert settings.get("TOKEN") is None
    settings.store.update(lambda data: data.update(env={"TOKEN": "t", "PORT": 80, "NONE": None}))
    assert [settings.get(key) for key in ("TOKEN", "PORT", "NONE")] == ["t", "80", None]


@pytest.mark.parametrize("content", ["{oops", '{"env": []}'])
def test_corrupt_settings_are_refused_and_left_as_they_are(tmp_path, content):
    path = tmp_path / "settings.json"
    path.write_text(content)
    path.chmod(0o600)
    for use in (
        lambda settings: settings.get("TOKEN"),
        lambda settings: settings.set("TOKEN", "t"),
        lambda settings: settings.set_command("TOKEN", ["pass", "show"]),
        lambda settings: settings.unset("TOKEN"),
        StoredSettings.values,
        StoredSettings.names,
    ):
        with pytest.raises(CorruptFile):
            use(StoredSettings(path))
    assert path.read_text() == content
    assert [problem.severity for problem in StoredSettings(path).check()] == ["error"]


def test_settings_that_others_can_read_are_warned_about(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text("{}")
    path.chmod(0o644)
    assert "can be read by others" in StoredSettings(path).check()[0].message


def test_settings_in_a_folder_that_cannot_be_read_are_told_as_such(tmp_path):
    path = tmp_path / "config" / "settings.json"
    path.parent.mkdir(mode=0)
    with ordinary_user():
        [problem] = StoredSettings(path).check()
    assert "could not be read: permission denied" in problem.message


def test_the_fingerprint_changes_with_the_settings_and_at_no_other_time(tmp_path):
    settings = StoredSettings(tmp_path / "settings.json")
    seen = [settings.fingerprint()]
    for change in (
        lambda: settings.set("TOKEN", "a"),
        lambda: settings.set("TOKEN", "b"),
        lambda: settings.unset("TOKEN"),
    ):
        change()
        assert settings.fingerprint() == settings.fingerprint()
        seen.append(settings.fingerprint())
    assert len(set(seen)) == 4
