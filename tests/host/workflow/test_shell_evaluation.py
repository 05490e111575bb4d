import os
import shutil
import subprocess
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.shell_lines import MARK, bind_line, looks_of

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
    'echo ${x} | { read -r "n"; eval "$n"; }',
    "2> /dev/null eval ${x}",
    'a="b c" eval ${x}',
    "command -- eval ${x}",
    'n=${x}; printf -v "a[$n]" hi',
    'n=${x}; read -r "a[$n]" < f',
    "eval ${x}",
    'eval "${x}"',
    "command -p eval ${x}",
    "declare ${x}",
    "typeset ${x}",
    "local ${x}",
    "readonly ${x}",
    "export ${x}",
    "printf -v ${x} y",
    "printf -v${x} y",
    "echo 1 | read ${x}",
    "echo 1 | read -r ${x}",
    "readarray ${x}",
    "trap ${x} EXIT",
    "source ${x}",
    ". ${x}",
    "alias e=${x}",
    "enable -f ${x} y",
    "compgen -W ${x}",
    "getopts a ${x}",
    'n=${x}; eval "$n"',
    "n=${x}; [[ a == b || $n -gt 2 ]]",
    "set -- ${x}; $@",
    "2>&1 eval ${x}",
    "time -p eval ${x}",
    "case a in (a) eval ${x};; esac",
    "source <(echo ${x})",
    "echo ${a:-b}; eval ${x}",
    "echo ${a:-${b:-c}}; eval ${x}",
    'echo $"a"; eval ${x}',
    "n=${x}; `echo let` $n",
    "n=${x}; [[ a ]] && eval $n",
    'n=${x}; cat <<EOF\nIt\'s $(eval "echo $n")\nEOF',
    'n=${x}; cat <<EOF\nIt\'s\nEOF\neval "$n"',
    "n=${x}; cat <<A - <<'B'\nIt's\nA\n'\nB\neval \"$n\"",
    'n=${x}; echo "$${y:-$(eval $n)}"',
    "n=${x}; echo $'it\\'s'; eval \"$n\"; echo 'x'",
    'n=${x}; # isn\'t \\\neval "$n"',
    "n=${x}; ev\\\nal $n",
    'n=${x}; eval "$né"',
    "set -- ${x}; eval $10",
]
"""What runs a value or sets the variable that it names."""
COMPUTING = [
    "a=${x}; n=$(echo $a); ((n))",
    "b=(${y} ${m:=${x}}); ((m))",
    "set -- ${x}; echo $(($${1} + 1))",
    "set -- ${x}; echo $(($${1:-0} + 1))",
    'printf "%s\\0" ${x} | while IFS= read -r -d "" n; do echo $((n + 1)); done',
    "declare -A m; m[key]=${x}; echo $((m[key] + 1))",
    "declare -r -i n=${x}",
    "f() { local -r -i n=$1; }; f ${x}",
    'test -v "$(echo ${x})"',
    'n=${x}; [ 1 = 1 -a -v "$n" ]',
    "[[ ${x} -gt 3 ]]",
    "f() { set -- ${x}; echo $(( $1 + 1 )); }; f",
    '"let" ${x}',
    "\\let ${x}",
    "le\\\nt ${x}",
    "let &>out ${x}",
    "let &>>out ${x}",
    "let >&2 ${x}",
    "A=1 let ${x}",
    "command let ${x}",
    "builtin let ${x}",
    "if let ${x}; then :; fi",
    "! let ${x}",
    "(let ${x})",
    "echo $(let ${x})",
    'echo "$(let ${x})"',
    "while let ${x}; do break; done",
    "f() { let $1; }; f ${x}",
    "declare -i n; n=${x}",
    "declare -n r; r=${x}; echo $r",
    "declare -a l=${x}",
    "printf ${x} y",
    "test -v ${x}",
    "[ -v ${x} ]",
    "[ ${x} ${x} ]",
    "unset ${x}",
    "unset -v ${x}",
    "wait -p ${x}",
    "true & wait -n ${x}",
    "true & wait ${x} ${y}",
    "n=${x}; echo $((n + 1))",
    "n=${x}; echo $[n + 1]",
    "n=${x}; [[ $n -eq 1 ]]",
    "n=${x}; [[ -v $n ]]",
    'n=${x}; test -v "$n"',
    "n=${x}; let n+1",
    "for n in ${x}; do echo $((n)); done",
    "echo ${x} | while read n; do echo $((n)); done",
    "n=$(echo ${x}); ((n))",
    "b[${x}]=1",
    "b=([${x}]=1)",
    "function f { let $1; }; f ${x}",
    "n=${x}; b[$n]=1",
    "RANDOM=${x}",
    "PS4=${x}; set -x; true",
    "n=${x}; [[ n -gt 2 ]]",
    "n=${x}; b[n]=1",
    "n=${x}; b=([n]=1)",
    "n=${x}; echo ${n@P}",
    "n=${x}; echo ${m:-$((n))}",
    ": ${n:=${x}}; ((n))",
    "n=${x}; : ${m:=$n}; ((m))",
    "set -- ${x}; for n; do ((n)); done",
    "f() { for n do let n; done; }; f ${x}",
    "true ${x}; echo $((_))",
    ": ${x}; echo $((PFLOW_1))",
    "n=${x}; eval 'let n'",
    "n=${x} eval 'echo $((n))'",
    "n=${x}; trap 'echo $((n))' EXIT",
    'run() { "$@"; }; run let ${x}',
    "echo y >&${x}",
    "echo ${x} | { read RANDOM; }",
    "for SECONDS in ${x}; do :; done",
    "declare -i n; printf -v n %s ${x}",
    "v=-v; test $v ${x}",
    "echo ${a:${x}}",
    "n=${x}; echo `let $n`",
    "n=$(true);let ${x}",
    "cat <(let ${x})",
    "n=${x}; echo $((1))$((n))",
    "[ ${x}a ${y}b ]",
    "command -p let a ${x}",
    "n=${x}; if((n > 3)); then :; fi",
    "n=${x}; for((i = 0; i < n; i++)); do break; done",
    "n=${x}; cat <<EOF\n# $((n + 1))\nEOF",
    "n=${x}; cat <<EOF\nDon't: $((n + 1))\nEOF",
    "n=${x}; echo $(( (1 + (2)) + n ))",
    "n=${x}; echo $(( ((1)) + n ))",
    'echo "$${y:-$(let m=${x})}"',
    "n=${x}; echo $'it\\'s' $((n + 1)) 'x'",
    "n=${x}; true # a\nlet n",
    "n=${x}; true # a \\\nlet n",
    "n=${x}; echo a\\\\\nlet n",
    'n=${x}; echo "$(case a in a) let n;; esac)"',
    "echo ${x} | ((read n; let n); true)",
    "set -- ${x}; : $(( $(echo '))') + $1 ))",
    "n=${x}; echo $(( $(echo '))') + n ))",
    "n=${x}; if ! [[ (1 -eq 1) && (n -gt 3) ]]; then :; fi",
    "b[${x}]=1; echo ${x}",
    "n=${x}; ((n > 3)) && echo large",
    "n=${x}${y}; i=$((i + n))",
]
"""What evaluates a value, or a variable that it names."""
HONEST = [
    "export LC_ALL=C\ngrep -c -- ${x} f",
    ". ./env.sh\necho ${x}",
    "trap cleanup EXIT\necho ${x}",
    'eval "$(true)"\necho ${x}',
    "read -r n\necho ${x}",
    'grep -E "^[[:space:]]*${x}="',
    'echo "((${x})) << ${x} [[ ${x}"',
    'i=0; i=$((i+1)); echo "pass $i of ${x}"',
    "echo $(( (1 + (2)) * 3 )) ${x}",
    "[[ ${x} == a* ]] && echo ${y}",
    "cat -- ${x} | sort > out 2>&1",
    "export A=${x}; env",
    "readonly A=${x}; echo $A",
    "test -f ${x} && cat ${x}",
    '[ "${x}" = "${y}" ] || exit 0',
    "printf '%s\\n' ${x}",
    "echo ${x}; i=0; i=$((i + 1)); echo $i",
    "a=(${x} ${y}); echo done",
    "f=${x}; if [[ -f $f ]]; then echo yes; fi",
    "trap 'rm -f tmp' EXIT; cat ${x} > tmp",
    'tmp=$(mktemp -d); trap "rm -rf $tmp" EXIT; cp ${x} $tmp',
    '. "$HOME/env.sh"; python ${x}',
    "case ${x} in a) echo 1;; *) echo 2;; esac",
    "command -v ${x}",
    "command ls ${x}",
    "while read -r line; do echo $line; done < ${x}",
    "echo 'eval' ${x} # eval",
    "${x} --version",
    "${x}/bin/tool ${y}",
    'run() { echo "$@"; "$@"; }; run cat ${x}',
    'tool=${x}; "$tool" --version',
    "cat ${x} 2>&1; [[ -n $HOME && -f $A ]] || true",
    "[ -n $HOME ] && curl -o out ${x} >&2",
    "case ${x} in (a) echo 1;; (*) echo 2;; esac",
    "n=$(wc -l < ${x}); echo $n lines",
    "$EDITOR ${x}; $(command -v python3) ${x}",
    "trap 'rm -f $tmp' EXIT; tmp=${x}; cat $tmp",
    "name=${x}; export NAME=$name; env",
    "fd=2; echo ${x} >&$fd",
    "for f in ${x} ${y}; do echo $f; done",
    "n=${x}; echo n$[1]",
    "b[1]=${x}",
    "printf %s -v ${x}",
    "printf -v n %s ${x}; echo $n",
    "echo ${x}#a ${y}",
    "tar -C ${x} -x",
    "n=${x}; cat <<EOF\nDon't wait: $n, $((1 + 1)), $(date)\nlet eval read\nEOF",
    'n=${x}; echo $(( $(wc -l < "$HOME") + 1 )); echo $n',
    "n=${x}; awk '{print $(NF - 1), $1}' \"$n\"",
    'n=${x}; (cd "$n" && ls); echo "$${HOME:-$(pwd)} $${n%/}"',
    'eval "$(ssh-agent -s)"; ssh ${x}',
    "promptfoo eval --config ${x}",
    "systemctl enable ${x}; docker run --mount type=bind,src=${x}",
    "source venv/bin/activate && python ${x}",
    "f=/tmp/$RANDOM; cp ${x} $f",
    "jq --arg b ${x} '.items[0].body = $b' ${y}",
    'git commit -m "fix (${x}): export ${y}, read it"',
    "f=${x}; i=0; for g in *; do i=$((i + 1)); done; cp $f $i",
    '"${x}" --list ${y}',
]


def bound(line, value="x"):
    return bind_line(line, lambda reference: value)


def runs(line, value, folder):
    """Return whether bash runs something of a value in a line that is not refused."""
    line = bound(line, value)
    subprocess.run(
        [BASH, "-c", line["line"]],
        env={**os.environ, **line["variables"], "HOME": str(folder)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
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
