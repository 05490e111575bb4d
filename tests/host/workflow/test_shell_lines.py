import os
import shutil
import subprocess
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.shell_lines import MARK, bind_line, looks_of

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


def bound(line, value="x"):
    return bind_line(line, lambda reference: value)


def output(shell, line, folder, *, check=True):
    return subprocess.run(
        [shell, "-c", line["line"]],
        env={**os.environ, **line["variables"], "HOME": str(folder)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=check,
    ).stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("line", LINES)
@settings(max_examples=10)
@given(value=NASTY)
def test_a_value_comes_out_as_it_went_in_and_nothing_of_it_is_run(tmp_path_factory, shell, line, value):
    folder = tmp_path_factory.getbasetemp()
    shown = output(shell, bound(line, value), folder).decode()
    # `$(...)` drops line ends; those lines print a dot behind the value.
    plain = output(shell, bound(line, "X"), folder).decode()
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
def test_a_value_that_could_become_code_is_found_before_anything_runs(bench, line, message):
    node = step("a", "shell", {"command": line})
    (problem,) = bench.host.runner.validate(flow(node, inputs={"n": {"type": "int"}}))
    assert (problem.severity, problem.path) == ("error", "$.nodes[0].params.command")
    assert message in problem.message


def test_a_value_that_a_line_could_evaluate_fails_its_node_before_it_runs(bench, tmp_path):
    node = step("a", "shell", {"command": "n=${n}; touch begun; echo $((n + 1))", "cwd": str(tmp_path)})
    workflow = flow(node, inputs={"n": {"type": "str"}})
    failed = bench.run(workflow, n="a[$(touch owned)]").error
    assert "${n} contains $(, and a shell could run what follows in: ((n + 1))" in failed.message
    assert not (tmp_path / "begun").exists()
    assert bench.run(workflow, n="2").success


BASH = shutil.which("bash")
EVIL = (
    "a[$(touch owned)]",
    "a[$(touch owned)]=1",
    "$(touch owned)",
    "touch owned",
    "-va[$(touch owned)]",
    "-npa[$(touch owned)]",
)

RUNNING = [
    "$(echo ${x}) --version",
    "echo ${x} | . /dev/stdin",
    "echo ${x} | source <(cat)",
    'echo ${x} | { read -r -p "? " n; eval "$n"; }',
    "2> /dev/null eval ${x}",
    'a="b c" eval ${x}',
    "command -- eval ${x}",
    'n=${x}; printf -v "a[$n]" hi',
    'n=${x}; read -r "a[$n]" < f',
    *(f"{word} ${{x}}" for word in ("eval", "declare", "typeset", "local", "readonly", "export")),
    "printf -v ${x} y",
    "printf -v${x} y",
    "readarray ${x}",
    "trap ${x} EXIT",
    "alias e=${x}",
    "enable -f ${x} y",
    "compgen -W ${x}",
    "getopts a ${x}",
    "n=${x}; [[ a == b || $n -gt 2 ]]",
    "set -- ${x}; $@",
    "2>&1 eval ${x}",
    "time -p eval ${x}",
    "case a in (a) eval ${x};; esac",
    "source <(echo ${x})",
    "echo ${a:-b}; eval ${x}",
    "echo ${a:-${b:-c}}; eval ${x}",
    "n=${x}; `echo let` $n",
    "n=${x}; [[ a ]] && eval $n",
    'n=${x}; cat <<EOF\nIt\'s $(eval "echo $n")\nEOF',
    "n=${x}; cat <<A - <<'B'\nIt's\nA\n'\nB\neval \"$n\"",
    'n=${x}; echo "$${y:-$(eval $n)}"',
    'n=${x}; # isn\'t \\\neval "$n"',
    "n=${x}; ev\\\nal $n",
    'n=${x}; eval "$né"',
    "set -- ${x}; eval $10",
]
"""What runs a value or sets the variable that it names."""
COMPUTING = [
    "a=${x}; n=$(echo $a); ((n))",
    "b=(${y} ${m:=${x}}); ((m))",
    'printf "%s\\0" ${x} | while IFS= read -r -d "" n; do echo $((n + 1)); done',
    "declare -A m; m[key]=${x}; echo $((m[key] + 1))",
    "f() { local -r -i n=$1; }; f ${x}",
    'test -v "$(echo ${x})"',
    'n=${x}; [ 1 = 1 -a -v "$n" ]',
    "[[ ${x} -gt 3 ]]",
    "le\\\nt ${x}",
    "let &>out ${x}",
    "let >&2 ${x}",
    "declare -i n; n=${x}",
    "printf ${x} y",
    "test -v ${x}",
    "[ ${x} ${x} ]",
    "unset ${x}",
    "wait -p ${x}",
    "n=${x}; echo $((n + 1))",
    "n=${x}; echo $[n + 1]",
    "n=${x}; [[ $n -eq 1 ]]",
    "for n in ${x}; do echo $((n)); done",
    "b[${x}]=1",
    "n=${x}; b[$n]=1",
    "RANDOM=${x}",
    "PS4=${x}; set -x; true",
    "n=${x}; echo ${n@P}",
    "n=${x}; : ${m:=$n}; ((m))",
    "set -- ${x}; for n; do ((n)); done",
    "f() { for n do let n; done; }; f ${x}",
    "true ${x}; echo $((_))",
    ": ${x}; echo $((PFLOW_1))",
    "n=${x}; eval 'let n'",
    "n=${x}; trap 'echo $((n))' EXIT",
    'run() { "$@"; }; run let ${x}',
    "echo y >&${x}",
    "echo ${x} | { read RANDOM; }",
    "for SECONDS in ${x}; do :; done",
    "declare -i n; printf -v n %s ${x}",
    "v=-v; test $v ${x}",
    "echo ${a:${x}}",
    "n=${x}; echo `let $n`",
    "n=${x}; echo $((1))$((n))",
    "[ ${x}a ${y}b ]",
    "n=${x}; cat <<EOF\n# $((n + 1))\nEOF",
    "n=${x}; cat <<EOF\nDon't: $((n + 1))\nEOF",
    "n=${x}; echo $'it\\'s' $((n + 1)) 'x'",
    "set -- ${x}; : $(( $(echo '))') + $1 ))",
    "n=${x}; echo $(( $(echo '))') + n ))",
]
"""What evaluates a value, or a variable that it names."""
HONEST = [
    ". ./env.sh\necho ${x}",
    "trap cleanup EXIT\necho ${x}",
    'echo "((${x})) << ${x} [[ ${x}"',
    "echo $(( (1 + (2)) * 3 )) ${x}",
    "[[ ${x} == a* ]] && echo ${y}",
    "export A=${x}; env",
    "printf '%s\\n' ${x}",
    'tmp=$(mktemp -d); trap "rm -rf $tmp" EXIT; cp ${x} $tmp',
    "case ${x} in a) echo 1;; *) echo 2;; esac",
    "command -v ${x}",
    "while read -r line; do echo $line; done < ${x}",
    "echo 'eval' ${x} # eval",
    'run() { echo "$@"; "$@"; }; run cat ${x}',
    "n=$(wc -l < ${x}); echo $n lines",
    "$EDITOR ${x}; $(command -v python3) ${x}",
    "trap 'rm -f $tmp' EXIT; tmp=${x}; cat $tmp",
    "n=${x}; echo n$[1]",
    "echo ${x}#a ${y}",
    "n=${x}; cat <<EOF\nDon't wait: $n, $((1 + 1)), $(date)\nlet eval read\nEOF",
    'n=${x}; echo $(( $(wc -l < "$HOME") + 1 )); echo $n',
    'n=${x}; (cd "$n" && ls); echo "$${HOME:-$(pwd)} $${n%/}"',
    "source venv/bin/activate && python ${x}",
    "jq --arg b ${x} '.items[0].body = $b' ${y}",
    'git commit -m "fix (${x}): export ${y}, read it"',
    "f=${x}; i=0; for g in *; do i=$((i + 1)); done; cp $f $i",
]


def runs(line, value, folder):
    """Return whether bash runs something of a value in a line that is not refused."""
    output(BASH, bound(line, value), folder, check=False)
    return (folder / "owned").exists()


@pytest.mark.parametrize("line", RUNNING)
def test_row_63_a_line_that_would_run_a_value_is_refused(line):
    with pytest.raises(PflowError, match=r"could (run the value as code|become part of the line)") as caught:
        bound(line)
    assert caught.value.suggestions


@pytest.mark.parametrize("line", COMPUTING)
def test_row_63_a_line_that_computes_takes_numbers_but_no_value_with_a_command(line):
    assert bound(line, "3")["variables"]
    for value in ("a[$(touch owned)]", "a[`touch owned`]", "a[${ touch owned; }]", "a[$"):
        with pytest.raises(PflowError, match=r"The value of \$\{.\} contains .* a shell could run") as caught:
            bound(line, value)
        assert caught.value.suggestions


@pytest.mark.skipif(not BASH, reason="bash is not installed")
@pytest.mark.parametrize("line", [*COMPUTING, *HONEST])
def test_row_63_nothing_of_a_value_is_run(tmp_path, line):
    for value in EVIL:
        with suppress(PflowError):
            assert not runs(line, value, tmp_path), value


@pytest.mark.parametrize("line", HONEST)
def test_row_63_honest_lines_take_every_value(line):
    for value in ("x", "3", "It costs $5 & `more` $(today) [1]", "a[$(touch owned)]"):
        assert bound(line, value)["variables"]


def test_row_63_a_value_is_not_the_builtin_that_runs_the_next_one():
    assert bound("${x} ${y}", "sort")["variables"]
    for line in ("${x} ${y}", 'tool=${x}; "$tool" ${y}', "cd /tmp && ${x} a ${y}"):
        with pytest.raises(PflowError, match="is eval, and the line could run what follows"):
            bound(line, "eval")


@given(st.text(alphabet=st.sampled_from(list("ab1 \n\t$`'\"\\;&|<>(){}[]=:#!-@*\0")), max_size=40))
def test_row_63_any_line_is_read(line):
    assert looks_of(line)


@pytest.mark.parametrize(
    "opened", ["(", "$(", "`", "${", "$((", "a=(", "[[ ", "$${", "$[", "<<A\n", "a=$b;b"]
)
def test_row_63_long_lines_are_read_in_time(opened):
    assert looks_of(opened * 5_000 + MARK)
