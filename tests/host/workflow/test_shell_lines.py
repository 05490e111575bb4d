import json
import os
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.shell_lines import bind_line

SHELLS = [shell for shell in ("/bin/sh", shutil.which("bash")) if shell]
LINES = [
    "printf %s ${x}",
    'printf %s "${x}"',
    "printf %s '${x}'",
    'printf %s "$(printf %s ${x}.)"',
    'printf %s "$(printf %s "${x}.")"',
    "printf %s \\'${x}\\' # don't",
    'printf %s ""${x}"" ; # "',
    "printf %s 'a'\"b\"${x}",
    "(printf %s ${x})",
    "true # isn't\nprintf %s ${x}",
    'printf %s "\\"${x}\\""',
    'A=${x}; printf %s "$A"',
    "case ${x} in *) printf %s ${x};; esac",
    'printf %s "$(case x in x) printf %s ${x}.;; esac)"',
    "echo $(( (1 + 2) * 3 )) > /dev/null; printf %s ${x}",
]
NASTY = st.one_of(
    st.text(alphabet=st.sampled_from(list("abc $`'\"\\;&|<>(){}[]*?~#!\n\t-=é")), max_size=20),
    st.sampled_from(["$(touch owned)", "`touch owned`", "'; touch owned; '", '"; touch owned; "', "-n", "*"]),
)


def bound(line, value):
    return bind_line(line, lambda reference: value)


def output(shell, line, folder):
    finished = subprocess.run(
        [shell, "-c", line["line"]],
        env={**os.environ, **line["variables"]},
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return finished.stdout.decode()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("line", LINES)
@settings(max_examples=10)
@given(value=NASTY)
def test_a_value_comes_out_as_it_went_in_and_nothing_of_it_is_run(tmp_path_factory, shell, line, value):
    folder = tmp_path_factory.getbasetemp()
    shown = output(shell, bound(line, value), folder)
    # `$(...)` drops line ends; those lines print a dot behind the value.
    plain = output(shell, bound(line, "X"), folder)
    assert shown == plain.replace("X", value)
    assert not (folder / "owned").exists()


@pytest.mark.parametrize(
    "line",
    [
        *("echo $((${x}))", 'echo "$((1 + ${x}))"', "((y = ${x}))", "echo $(( (1) + ${x} ))", "echo $[${x}]"),
        *("cat <<EOF\n${x}\nEOF", "echo `echo ${x}`", 'echo "`echo ${x}`"', "echo a # ${x}", "echo \\${x}"),
    ],
)
def test_where_no_quoting_would_do_a_template_is_refused(line):
    with pytest.raises(PflowError) as caught:
        bound(line, "1")
    assert "${x}" in caught.value.message
    assert caught.value.suggestions


@pytest.mark.parametrize(
    ("line", "expanded"),
    [
        ('echo "$(a)" ${x}', 'echo "$(a)" "${PFLOW_1}"'),
        ('echo "$( (a); echo ${x})"', 'echo "$( (a); echo "${PFLOW_1}")"'),
        (r"echo \\${x}", r'echo \\"${PFLOW_1}"'),
    ],
)
def test_an_expansion_is_quoted_for_its_place_in_the_line(line, expanded):
    assert bound(line, "1")["line"] == expanded


def test_values_that_are_no_text_are_written_as_json_and_a_lone_list_is_arguments():
    assert bound("echo ${x}", {"a": [1, None]})["variables"] == {"PFLOW_1": '{"a": [1, null]}'}
    assert bound("${x}", ["ls", "-l"]) == ["ls", "-l"]
    assert bound("${x}", "ls -l") == {"line": '"${PFLOW_1}"', "variables": {"PFLOW_1": "ls -l"}}


def test_a_line_without_templates_stays_as_it_is():
    assert bound("echo $HOME $${x}", "") == "echo $HOME ${x}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("echo $((${n} + 1))", "${n} is in (( ))"),
        ("eval ${n}", "eval in it could run the value as code"),
        ("x=${n}; export $x", "export in it could run the value as code"),
    ],
)
def test_a_value_that_could_become_code_is_found_before_anything_runs(pflow, tmp_path, line, message):
    first, node = step("first", "shell", {"command": "touch begun"}), step("a", "shell", {"command": line})
    workflow = flow(first, node, edges=[edge("first", "a")], inputs={"n": {"type": "int"}})
    (tmp_path / "wf.json").write_text(json.dumps(workflow))
    for refused in (pflow("validate", "wf.json", "--json"), pflow("run", "wf.json", "n=1", "--json")):
        assert refused.exit_code == 2
        (problem,) = refused.envelope["error"]["details"]["problems"]
        assert problem["path"] == "$.nodes[1].params.command"
        assert message in problem["message"]
    assert not (tmp_path / "begun").exists()
    node["params"]["command"] = "echo ${n}"
    (tmp_path / "wf.json").write_text(json.dumps(workflow))
    assert pflow("validate", "wf.json").exit_code == 0


def test_a_value_that_a_line_could_evaluate_fails_its_node_before_it_runs(pflow, tmp_path):
    node = step("a", "shell", {"command": "n=${n}; touch begun; echo $((n + 1))"})
    (tmp_path / "wf.json").write_text(json.dumps(flow(node, inputs={"n": {"type": "str"}})))
    refused = pflow("run", "wf.json", "n=a[$(touch owned)]", "--json")
    assert refused.exit_code == 1
    message = refused.envelope["error"]["message"]
    assert "${n} contains $(, and a shell could run what follows in: ((n + 1))" in message
    assert not (tmp_path / "begun").exists()
    assert pflow("run", "wf.json", "n=2").exit_code == 0
