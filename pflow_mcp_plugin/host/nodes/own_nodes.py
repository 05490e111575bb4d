"""The registry entries of the host's own nodes; reading them does not import the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin.contract import Entry, Field, Interface, NodeSource

_FILE_PATH = Field(
    key="file_path", type="str", required=True, description="The file; `~` and relative paths are fine"
)
_SPECIAL = Field(
    key="special_files", type="bool", description="Whether it may be a pipe, a terminal or another device"
)
_SPECIAL_TIMEOUT = Field(
    key="timeout", type="float", description="Seconds that such a file may take, 60 by default"
)
_ENTRIES = (
    Entry(
        node="echo",
        class_name="Echo",
        module="pflow_mcp_plugin.host.nodes.echo",
        file_path="pflow_mcp_plugin/host/nodes/echo.py",
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
                Field(key="max_mb", type="float", description="MiB that it may have, 256 by default"),
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
                Field(key="timeout", type="float", description="Seconds until it is ended, 300 by default"),
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
                Field(key="stdout", type="str", description="What it wrote; above 8 MiB its two ends"),
                Field(key="stderr", type="str", description="What it wrote to standard error, likewise"),
                Field(
                    key="stdout_file",
                    type="str",
                    description="Only when stdout is longer than 8 MiB: the file with all of it",
                ),
                Field(
                    key="stderr_file",
                    type="str",
                    description="Only when stderr is longer than 8 MiB: the file with all of it",
                ),
                Field(key="exit_code", type="int", description="Its exit code; negative for a signal"),
            ),
            actions=("default", "error", "timeout"),
            result="stdout",
            piped="stdin",
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
                Field(key="system", type="str", description="How it is to answer"),
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
