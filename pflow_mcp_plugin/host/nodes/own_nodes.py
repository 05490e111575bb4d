"""The registry entries of the host's own nodes; reading them does not import the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import Entry, Field, Interface, NodeSource

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.json_types import JSON

_FILE_PATH = Field(
    key="file_path", type="str", required=True, description="The file; `~` and relative paths are fine"
)
_SPECIAL = Field(
    key="special_files", type="bool", description="Whether it may be a pipe, a terminal or another device"
)
_SPECIAL_TIMEOUT = Field(
    key="timeout", type="float", description="Seconds that such a file may take, 60 by default"
)
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
_ENTRIES = (
    Entry(
        node="echo",
        class_name="Echo",
        module="pflow_mcp_plugin.host.nodes.value_nodes",
        file_path="pflow_mcp_plugin/host/nodes/value_nodes.py",
        source="pflow",
        description="Pass a message on: show a value, or gather several in one string",
        purity="flow_safe",
        interface=Interface(
            inputs=("message",),
            params=(Field(key="message", required=True, description="Any value"),),
            outputs=(Field(key="message", description="The same value"),),
            actions=("default",),
        ),
    ),
    Entry(
        node="read-file",
        class_name="ReadFile",
        module="pflow_mcp_plugin.host.nodes.file_nodes",
        file_path="pflow_mcp_plugin/host/nodes/file_nodes.py",
        source="pflow",
        description="Read a text file",
        purity="flow_safe",
        cacheable=False,
        interface=Interface(
            inputs=("file_path", "encoding"),
            params=(
                _FILE_PATH,
                Field(key="encoding", type="str", description="The encoding of its text, utf-8 by default"),
                Field(key="max_mb", type="float", description="Its maximum size in MiB, 256 by default"),
                _SPECIAL,
                _SPECIAL_TIMEOUT,
            ),
            outputs=(
                Field(key="content", type="str", description="The whole text"),
                Field(key="file_path", type="str", description="The file that was read"),
            ),
            result="content",
        ),
    ),
    Entry(
        node="write-file",
        class_name="WriteFile",
        module="pflow_mcp_plugin.host.nodes.file_nodes",
        file_path="pflow_mcp_plugin/host/nodes/file_nodes.py",
        source="pflow",
        description="Write a text file, or append to it; lists and objects are written as JSON",
        effects=("destructive",),
        interface=Interface(
            inputs=("file_path", "content", "append"),
            params=(
                _FILE_PATH,
                Field(key="content", required=True, description="Text, or any value to be written as JSON"),
                Field(key="append", type="bool", description="Add to the end instead of replacing the file"),
                _SPECIAL,
                _SPECIAL_TIMEOUT,
            ),
            outputs=(
                Field(key="file_path", type="str", description="The file that was written"),
                Field(key="size", type="int", description="Its length in bytes"),
            ),
            result="file_path",
        ),
    ),
    Entry(
        node="shell",
        class_name="Shell",
        module="pflow_mcp_plugin.host.nodes.shell",
        file_path="pflow_mcp_plugin/host/nodes/shell.py",
        source="pflow",
        description="Run a command: a program with a list of arguments, or a line for the shell; what it "
        "leaves running in the background ends with it",
        retryable=False,
        effects=("destructive", "sends_data"),
        may_run_code=True,
        interface=Interface(
            inputs=("stdin",),
            params=(
                Field(
                    key="command",
                    type="str | list",
                    required=True,
                    description="Arguments, or a shell line; values of templates in a line are quoted",
                    schema={"type": ["string", "array"]},
                    shell_line=True,
                ),
                Field(key="stdin", description="Standard input; all but strings as JSON"),
                Field(key="cwd", type="str", description="The folder it runs in"),
                Field(key="env", type="dict", description="Variables in addition to those of pflow"),
                Field(
                    key="timeout",
                    type="float",
                    description="Seconds after which it is stopped, 300 by default",
                ),
                Field(
                    key="check",
                    type="bool",
                    description="Whether exit codes other than 0 fail; true by default",
                ),
                Field(
                    key="max_output_mb",
                    type="float",
                    description="MiB of stdout, and of stderr, at which it is ended; 256 by default",
                ),
            ),
            outputs=(
                Field(key="stdout", type="str", description="What it wrote"),
                Field(key="stderr", type="str", description="What it wrote to standard error"),
                Field(key="exit_code", type="int", description="Its exit code; negative for a signal"),
                Field(
                    key="lines",
                    type="list",
                    description="The lines of stdout, unless it is longer than 8 MiB",
                    schema={"type": "array", "items": {"type": "string"}},
                ),
                Field(key="json", description="Only when stdout is JSON of at most 8 MiB: its value"),
            ),
            actions=("default", "error", "timeout"),
            result="stdout",
            piped="stdin",
        ),
    ),
    Entry(
        node="branch",
        class_name="Branch",
        module="pflow_mcp_plugin.host.nodes.value_nodes",
        file_path="pflow_mcp_plugin/host/nodes/value_nodes.py",
        source="pflow",
        description="Decide which node is next: if, else, switch; conditions are JMESPath expressions over "
        "the inputs and the outputs of earlier nodes",
        purity="flow_safe",
        cacheable=False,
        interface=Interface(
            params=(
                Field(
                    key="cases",
                    type="list",
                    required=True,
                    description='`{"when": EXPRESSION, "action": NAME}`; the first that is true gives the '
                    "action, else it is `default`",
                    schema=_CASES,
                ),
            ),
            outputs=(Field(key="case", type="str", description="The action of the case that was taken"),),
        ),
    ),
    Entry(
        node="transform",
        class_name="Transform",
        module="pflow_mcp_plugin.host.nodes.value_nodes",
        file_path="pflow_mcp_plugin/host/nodes/value_nodes.py",
        source="pflow",
        description="Shape data with JMESPath expressions: pick, filter, count, zip, group, sort, flatten, "
        "join text, split lines, parse and print JSON and CSV",
        purity="flow_safe",
        cacheable=False,
        interface=Interface(
            params=(
                Field(key="expression", type="str", description="Makes the output `result`"),
                Field(
                    key="outputs",
                    type="dict",
                    description="An expression for each further output, by its name",
                    schema={"type": "object", "additionalProperties": {"type": "string"}},
                ),
                Field(
                    key="data",
                    description="What the expressions apply to; by default all values in scope (`$`)",
                ),
            ),
            outputs=(Field(key="result", description="The value of `expression`"),),
            result="result",
            piped="data",
        ),
    ),
    Entry(
        node="llm",
        class_name="Llm",
        module="pflow_mcp_plugin.host.nodes.llm_node",
        file_path="pflow_mcp_plugin/host/nodes/llm_node.py",
        source="pflow",
        description="Ask a language model: summarize, classify, extract or write text with an LLM",
        effects=("sends_data",),
        interface=Interface(
            inputs=("prompt",),
            params=(
                Field(key="prompt", required=True, description="The question; all but strings as JSON"),
                Field(key="input", description="Text that the prompt is about; all but strings as JSON"),
                Field(key="system", type="str", description="Instructions for its answers"),
                Field(key="model", type="str", description="A model of `llm models`, else its default"),
                Field(key="temperature", type="float", description="How freely it answers"),
                Field(key="schema", type="dict", description="A JSON Schema; the answer is then a value"),
                Field(key="options", type="dict", description="Further options of the model"),
            ),
            outputs=(
                Field(key="response", description="The answer: a string, or with a schema any value"),
                Field(key="model", type="str", description="The model that answered"),
                Field(key="usage", type="dict", description="Numbers of input and output tokens"),
            ),
            result="response",
            piped="input",
            actions=("default", "error", "rate_limited"),
        ),
    ),
    Entry(
        node="workflow",
        class_name="SubRun",
        module="pflow_mcp_plugin.host.running.flow",
        file_path="pflow_mcp_plugin/host/running/flow.py",
        source="pflow",
        description="Run another workflow as a step: a saved one by its name, a file, or one written in "
        "place; its inputs are further parameters, and its outputs those of the node",
        interface=Interface(
            params=(
                Field(
                    key="workflow",
                    type="str | dict",
                    required=True,
                    description="A saved workflow's name, a file beside this workflow's, or a workflow",
                    schema={"type": ["string", "object"]},
                ),
            ),
            open=True,
            open_outputs=True,
        ),
    ),
)


class OwnNodes(NodeSource):
    """The node source with the entries of the host's own nodes."""

    name = "pflow"
    prefixes = tuple(entry.node for entry in _ENTRIES)

    def fingerprint(self) -> str:
        """Return a string that changes when the entries of the host's own nodes do."""
        from zlib import crc32

        return f"{crc32(repr(_ENTRIES).encode()):08x}"

    def get(self, node_type: str) -> Entry | None:
        """Return the entry of one of the host's own nodes."""
        return next((entry for entry in _ENTRIES if entry.node == node_type), None)

    def entries(self) -> Iterator[Entry]:
        """Yield the entry of each of the host's own nodes."""
        yield from _ENTRIES
