"""The registry entries of the host's own nodes; reading them does not import the nodes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pflow_mcp_plugin import contract
from pflow_mcp_plugin.contract import EXIT_CODES, NodeSource, Problem
from pflow_mcp_plugin.contract.problems import problem_of

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Entry, NodeUse
    from pflow_mcp_plugin.contract.json_types import JSON

_OF_INTERFACE = ("inputs", "params", "outputs", "actions", "open", "open_outputs", "result", "piped")


def _field(key: str, kind: str, description: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "type": kind, "description": description, **more}


def _own(node: str, module: str, description: str, **more: Any) -> dict[str, Any]:
    """Return the JSON form of an own node's entry, with `more`; most classes have the node's name."""
    return {
        "node": node,
        "class_name": node.title().replace("-", ""),
        "module": f"pflow_mcp_plugin.host.{module}",
        "file_path": f"pflow_mcp_plugin/host/{module.replace('.', '/')}.py",
        "source": "pflow",
        "description": description,
        "interface": {key: more.pop(key) for key in _OF_INTERFACE if key in more},
        **more,
    }


_ABOVE_0: dict[str, Any] = {"schema": {"type": "number", "exclusiveMinimum": 0}}
_FILE_PATH = _field("file_path", "str", "The file; `~` and relative paths are fine", required=True)
_SPECIAL = _field("special_files", "bool", "Whether it may be a pipe, a terminal or another device")
_SPECIAL_TIMEOUT = _field("timeout", "float", "Seconds that such a file may take, 60 by default", **_ABOVE_0)
_CWD = _field("cwd", "str", "The folder it runs in")
_MOST_OUTPUT = _field(
    "max_output_mb", "float", "MiB of each output at which it is ended, 256 by default", **_ABOVE_0
)
_FILES: dict[str, JSON] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "name": {"type": "string"},
            "size": {"type": "integer"},
            "modified": {"type": "string"},
        },
        "additionalProperties": False,
    },
}
_CASES: dict[str, JSON] = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {"when": {"type": "string"}, "action": {"type": "string"}},
        "required": ["when", "action"],
        "additionalProperties": False,
    },
}


def _moving(done: str) -> dict[str, Any]:
    """Return what the registry entries of our nodes `copy-file` and `move-file` say of their interface."""
    return {
        "inputs": ("source", "destination"),
        "params": (
            _field("source", "str", "The file or folder; for a link, the link itself", required=True),
            _field("destination", "str", "Its new path, or a folder to put it into", required=True),
            _field("overwrite", "bool", "Whether an existing file may be replaced"),
        ),
        "outputs": (
            _field("file_path", "str", "Where it is now"),
            _field("size", "int", f"The bytes {done}; for a folder, those of all files in it"),
        ),
        "result": "file_path",
    }


_ENTRIES = (
    _own(
        "echo",
        "nodes.value_nodes",
        "Pass a message on: show a value, or combine several in one string",
        purity="flow_safe",
        inputs=("message",),
        params=(_field("message", "any", "Any value", required=True),),
        outputs=(_field("message", "any", "The same value"),),
        actions=("default",),
    ),
    _own(
        "read-file",
        "nodes.file_content_nodes",
        "Read a text file",
        purity="flow_safe",
        cacheable=False,
        inputs=("file_path", "encoding"),
        params=(
            _FILE_PATH,
            _field("encoding", "str", "The encoding of its text, utf-8 by default"),
            _field("max_mb", "float", "Its maximum size in MiB, 256 by default", **_ABOVE_0),
            _SPECIAL,
            _SPECIAL_TIMEOUT,
        ),
        outputs=(
            _field("content", "str", "The whole text"),
            _field("file_path", "str", "The file that was read"),
        ),
        result="content",
    ),
    _own(
        "write-file",
        "nodes.file_content_nodes",
        "Write a text file, or append to it; lists and objects are written as JSON",
        effects=("destructive",),
        inputs=("file_path", "content", "append"),
        params=(
            _FILE_PATH,
            _field(
                "content",
                "any",
                "Text, or any value but null to be written as JSON",
                required=True,
                schema={"type": ["string", "number", "boolean", "array", "object"]},
            ),
            _field("append", "bool", "Add to the end instead of replacing the file"),
            _SPECIAL,
            _SPECIAL_TIMEOUT,
        ),
        outputs=(
            _field("file_path", "str", "The file that was written"),
            _field("size", "int", "Its length in bytes"),
        ),
        result="file_path",
    ),
    _own(
        "list-files",
        "nodes.file_system_nodes",
        "List the files that match a pattern, with their sizes and times",
        purity="flow_safe",
        cacheable=False,
        inputs=("pattern", "folder"),
        params=(
            _field(
                "pattern",
                "str",
                "Such as `*.csv` or `src/**/*.py`; `**` stands for any folders, and hidden files "
                "match only a pattern with a name that begins with a dot",
                required=True,
            ),
            _field("folder", "str", "Where to look, by default the current folder"),
        ),
        outputs=(
            _field("files", "list", "path, name, size, modified (UTC) of each, by path", schema=_FILES),
            _field("count", "int", "How many there are"),
        ),
        result="files",
    ),
    _own(
        "copy-file",
        "nodes.file_system_nodes",
        "Copy a file, or a folder with everything in it",
        effects=("destructive",),
        **_moving("copied"),
    ),
    _own(
        "move-file",
        "nodes.file_system_nodes",
        "Move or rename a file or a folder",
        effects=("destructive",),
        **_moving("moved"),
    ),
    _own(
        "delete-file",
        "nodes.file_system_nodes",
        "Delete a file, or with `recursive` a folder with everything in it",
        effects=("destructive",),
        params=(
            _field("file_path", "str", "The file or folder", required=True),
            _field("recursive", "bool", "Whether it may be a folder"),
            _field("missing_ok", "bool", "Whether it need not exist"),
        ),
        outputs=(
            _field("file_path", "str", "What was deleted"),
            _field("deleted", "bool", "False if it did not exist"),
        ),
        result="file_path",
    ),
    _own(
        "shell",
        "nodes.shell",
        "Run a command: a program with a list of arguments, or a line for the shell; what it "
        "leaves running in the background ends with it",
        retryable=False,
        effects=("destructive", "sends_data"),
        may_run_code=True,
        inputs=("stdin",),
        params=(
            _field(
                "command",
                "str | list",
                "Arguments, or a shell line; values of templates in a line are quoted",
                required=True,
                schema={"type": ["string", "array"]},
                shell_line=True,
            ),
            _field("stdin", "any", "Standard input; values other than strings as JSON"),
            _CWD,
            _field("env", "dict", "Variables in addition to those of pflow"),
            _field("timeout", "float", "Seconds after which it is stopped, 300 by default", **_ABOVE_0),
            _field("check", "bool", "Whether exit codes other than 0 fail; true by default"),
            _MOST_OUTPUT,
            _field(
                "memory_mb", "float", "MiB of memory that each process may have; any by default", **_ABOVE_0
            ),
        ),
        outputs=(
            _field("stdout", "str", "What it wrote"),
            _field("stderr", "str", "What it wrote to standard error"),
            _field("exit_code", "int", "Its exit code; negative for a signal"),
            _field(
                "lines",
                "list",
                "The lines of stdout, unless it is longer than 8 MiB",
                schema={"type": "array", "items": {"type": "string"}},
            ),
            _field("json", "any", "Only when stdout is JSON of at most 8 MiB: its value"),
        ),
        actions=("default", "error", "timeout"),
        result="stdout",
        piped="stdin",
    ),
    _own(
        "python",
        "nodes.python_node",
        "Run a few lines of Python: compute, convert, clean and reshape data",
        retryable=False,
        effects=("destructive", "sends_data"),
        may_run_code=True,
        params=(
            _field(
                "code",
                "str",
                "Python; it finds `inputs` as variables and leaves its result in `result`",
                required=True,
                source_code=True,
            ),
            _field("inputs", "dict", "The variables of the code, each with its value"),
            _field(
                "requirements",
                "list",
                "Packages that it needs, such as `pandas>=2`; requires uv",
                schema={"type": "array", "items": {"type": "string"}},
                source_code=True,
            ),
            _field("env", "dict", "Variables; of pflow's own it sees only PATH, HOME and a few others"),
            _CWD,
            _field("timeout", "float", "Seconds after which it is ended, 60 by default", **_ABOVE_0),
            _field(
                "memory_mb", "float", "MiB of memory that each process may have, 1024 by default", **_ABOVE_0
            ),
            _MOST_OUTPUT,
        ),
        outputs=(
            _field("result", "any", "What it left in `result`, else null"),
            _field("stdout", "str", "What it printed"),
            _field("stderr", "str", "What it wrote to standard error, with the traceback of a failure"),
        ),
        actions=("default", "error", "timeout"),
        result="result",
    ),
    _own(
        "branch",
        "nodes.value_nodes",
        "Decide which node is next: if, else, switch; conditions are JMESPath expressions over "
        "the inputs and the outputs of earlier nodes",
        purity="flow_safe",
        cacheable=False,
        params=(
            _field(
                "cases",
                "list",
                '`{"when": EXPRESSION, "action": NAME}`; the first that is true gives the '
                "action, else it is `default`",
                required=True,
                schema=_CASES,
            ),
        ),
        outputs=(_field("case", "str", "The action of the case that was taken"),),
    ),
    _own(
        "transform",
        "nodes.value_nodes",
        "Shape data with JMESPath expressions: pick, filter, count, zip, group, sort, flatten, "
        "join text, split lines, parse and print JSON and CSV",
        purity="flow_safe",
        cacheable=False,
        params=(
            _field("expression", "str", "Makes the output `result`"),
            _field(
                "outputs",
                "dict",
                "An expression for each further output, by its name",
                schema={"type": "object", "additionalProperties": {"type": "string"}},
            ),
            _field("data", "any", "What the expressions apply to; by default all values in scope (`$`)"),
        ),
        outputs=(_field("result", "any", "The value of `expression`"),),
        result="result",
        piped="data",
    ),
    _own(
        "fail",
        "nodes.value_nodes",
        "Fail with a message, on purpose: end the run or the item, or take the edge for errors",
        purity="flow_safe",
        cacheable=False,
        retryable=False,
        params=(
            _field("message", "any", "Why; values other than strings as JSON", required=True),
            _field(
                "kind",
                "str",
                "Decides the exit code; `execution` by default",
                schema={"type": "string", "enum": [it for it in EXIT_CODES if it != "interrupted"]},
            ),
        ),
    ),
    _own(
        "ask",
        "nodes.value_nodes",
        "Ask the user for approval, or a decision; shows the next step with its exact arguments",
        purity="flow_safe",
        cacheable=False,
        params=(
            _field("question", "str", "What to ask", required=True),
            _field(
                "choices",
                "list",
                "The possible answers; without them, any text",
                schema={"type": "array", "items": {"type": "string"}},
            ),
        ),
        outputs=(_field("answer", "str", "The answer"),),
        result="answer",
    ),
    _own(
        "llm",
        "nodes.llm_node",
        "Ask a language model: summarize, classify, extract or write text with an LLM",
        effects=("sends_data",),
        inputs=("prompt",),
        params=(
            _field("prompt", "any", "The question; values other than strings as JSON", required=True),
            _field("input", "any", "Text that the prompt is about; values other than strings as JSON"),
            _field("system", "str", "Instructions for its answers"),
            _field("model", "str", "A model of `llm models`, else its default"),
            _field("temperature", "float", "How varied its answers are"),
            _field("schema", "dict", "A JSON Schema; the answer is then a value"),
            _field("options", "dict", "Further options of the model"),
        ),
        outputs=(
            _field("response", "any", "The answer: a string, or with a schema any value"),
            _field("model", "str", "The model that answered"),
            _field("usage", "dict", "Numbers of input and output tokens"),
        ),
        result="response",
        piped="input",
        actions=("default", "error", "rate_limited"),
    ),
    _own(
        "http",
        "nodes.http_node",
        "Send an HTTP request: fetch a URL or web page, call a REST API, post JSON or a form, upload or "
        "download a file; reads all pages if wanted",
        effects=("untrusted_output", "destructive", "sends_data"),
        params=(
            _field("url", "str", "The http or https address; credentials belong in auth", required=True),
            _field("method", "str", "GET by default; HEAD, OPTIONS, POST, PUT, PATCH or DELETE"),
            _field("query", "dict", "Fields for the query of the url; a list gives several values"),
            _field("headers", "dict", "Headers of the request"),
            _field("body", "any", "Its body: a string as text, any other value as JSON"),
            _field("form", "dict", "Instead of body: the fields of a form"),
            _field("files", "dict", "Files of the form: the path of each, by the name of its field"),
            _field(
                "auth",
                "dict",
                '`{"type": "bearer", "token": T}`, `{"type": "basic", "username": U, "password": T}` or '
                '`{"type": "header", "name": N, "value": T}`; T may be `{"variable": NAME}`',
            ),
            _field("expect", "list", 'The statuses that are not failures: ["2xx"] by default'),
            _field("next_page", "str", '"link" for the Link header, or an expression for the next URL'),
            _field("max_pages", "int", "The most pages, 100 by default"),
            _field("download", "str", "The file to write the body to"),
            _field("retries", "int", "How often a GET is sent again if it fails, 2 by default"),
            _field("timeout", "float", "Seconds for all of it, 60 by default", **_ABOVE_0),
            _field("max_mb", "float", "MiB of the response, 32 by default, 4096 for a download", **_ABOVE_0),
            _field("insecure", "bool", "Whether plain http to another machine is allowed"),
            _field("tls_pins", "str | list", "The keys, one of which it must have, or a file of them"),
            _field("ca_bundle", "str", "The file or folder of the only CAs that are trusted"),
            _field("client_cert", "str | list", "The file with certificate and key, or one for each"),
        ),
        outputs=(
            _field("status", "int", "The status of the response, of the last one if there are several"),
            _field("headers", "dict", "Its headers, with names in lower case"),
            _field(
                "body",
                "any",
                "Its body: a value if it is JSON, else text; for pages, a list; for a download, the file",
            ),
            _field("path", "str", "Only with download: the file"),
        ),
        actions=("default", "error", "timeout", "rate_limited", "auth_failed", "resource_missing"),
        result="body",
    ),
    _own(
        "workflow",
        "running.flow",
        "Run another workflow as a step: a saved one by its name, a file, or one written in "
        "place; its inputs are further parameters, and its outputs those of the node",
        class_name="SubRun",
        params=(
            _field(
                "workflow",
                "str | dict",
                "A saved workflow's name, a file beside this workflow's, or a workflow",
                required=True,
                schema={"type": ["string", "object"]},
            ),
        ),
        open=True,
        open_outputs=True,
    ),
)


class OwnNodes(NodeSource):
    """The node source with the entries of the host's own nodes, which most lists and searches do not need."""

    name = "pflow"
    prefixes = tuple(entry["node"] for entry in _ENTRIES)

    def fingerprint(self) -> str:
        from zlib import crc32

        return f"{crc32(repr(_ENTRIES).encode()):08x}"

    def get(self, node_type: str) -> Entry | None:
        return next((entry for entry in self._entries if entry.node == node_type), None)

    def entries(self) -> Iterator[Entry]:
        yield from self._entries

    @cached_property
    def _entries(self) -> tuple[Entry, ...]:
        return tuple(map(contract.Entry.from_dict, _ENTRIES))

    def check_use(self, use: NodeUse) -> Iterator[Problem]:
        """Yield what is wrong with the use of an own node: params of `http`, code, what starts a program."""
        command = use.params.get("command")
        if use.entry.node == "shell" and (
            command == [] or (isinstance(command, str) and not command.strip())
        ):
            yield Problem(message="command is empty", path="command", suggestion="Write a command")
        env = use.params.get("env") if use.entry.node in ("shell", "python") else None
        for fault in unnamable(env) if isinstance(env, dict) else ():
            yield Problem(message=fault, path="env", suggestion="Rename it")
        if use.entry.node == "python":
            yield from _code_mistakes(use.params)
        if use.entry.node == "http":
            from pflow_mcp_plugin.host.nodes.http_node import mistakes

            yield from mistakes(use.params)

    def unmet(self, uses: Iterable[NodeUse]) -> Iterator[Problem]:
        """Yield what own nodes lack on this machine: `llm`, uv, and programs of commands that are lists."""
        from importlib.util import find_spec

        used = list(uses)
        if any(use.entry.node == "llm" for use in used) and find_spec("llm") is None:
            from pflow_mcp_plugin.host.language_model import llm_missing

            yield problem_of(llm_missing())
        for program in dict.fromkeys(map(_missing_program, used)):
            if program:
                from pflow_mcp_plugin.host.workflow.findings import cut
                from pflow_mcp_plugin.processes.missing_programs import remedy

                step = remedy(program, ask_shell=False) or "Install it, or give its full path"
                yield Problem(message=f"Command not found: {cut(program)}", suggestion=step, kind="config")


def _code_mistakes(params: Mapping[str, object]) -> Iterator[Problem]:
    inputs, code = params.get("inputs"), params.get("code")
    for fault in misnamed(inputs) if isinstance(inputs, dict) else ():
        yield Problem(message=fault, path="inputs", suggestion="Rename it")
    if isinstance(code, str) and (fault := _syntax_fault(code)):
        yield Problem(message=fault, path="code", suggestion="Correct the code")


def misnamed(inputs: Iterable[str]) -> Iterator[str]:
    """For the registry entry of our own node `python`: yield which inputs cannot be variables, and why."""
    from keyword import iskeyword

    for name in inputs:
        if not name.isidentifier() or iskeyword(name) or name.startswith("__"):
            yield f"the input {name!r:.60} cannot be the name of a variable"


def unnamable(env: Iterable[object]) -> Iterator[str]:
    """For entries of our own nodes that start a program: yield which names in `env` no variable can have."""
    for name in map(str, env):
        if not name or "=" in name or "\0" in name:
            yield f"the name {name!r:.60} in env cannot be that of a variable"


def _syntax_fault(code: str) -> str:
    import warnings

    if not code.strip():
        return "The code is empty"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the code are shown when it runs
            compile(code, "<code>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"Line {error.lineno or 1} of the code: {error.msg}"
    except (ValueError, OverflowError, MemoryError, RecursionError) as error:
        return f"The code cannot be compiled: {error or type(error).__name__}"
    return ""


def _missing_program(use: NodeUse) -> str:
    """Return the program of an own node that is not on PATH; "" if it is there or cannot be judged."""
    command, env = use.params.get("command"), use.params.get("env", {})
    program = command[0] if use.entry.node == "shell" and isinstance(command, list) and command else None
    if use.entry.node == "python" and use.params.get("requirements"):
        import sys
        from pathlib import Path

        if (Path(sys.executable).parent / "uv").exists():
            return ""
        program = "uv"
    # An earlier step may create the file at a path, and only the run knows the value of a template.
    if not isinstance(program, str) or not program or os.sep in program or not isinstance(env, dict):
        return ""
    path = env.get("PATH", os.environ.get("PATH"))
    import shutil

    return "" if not isinstance(path, str | None) or shutil.which(program, os.F_OK, path) else program
