"""Annotations that contradict a tool's name, and arguments that its text does not explain.

Both go by lists of words, so they only warn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pflow_mcp_plugin.trust.tool_findings import Finding, Rule
from pflow_mcp_plugin.types import Tool

_DELETES = re.compile(r"delete|remove|drop|destroy|erase|purge|wipe|truncate|kill|uninstall|overwrite|revoke")
_CHANGES = re.compile(
    rf"{_DELETES.pattern}|write|create|insert|update|modify|edit|rename|move|upload|send|install|execute"
)
_LONGEST = 200
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_SECRETS = (
    r"(?:.*_)?(?:password|passwd|passphrase|api_?keys?|secrets?|access_token|auth_token|refresh_token"
    r"|bearer_token|private_?key|ssh_?keys?|credentials?|cookies?|id_rsa|env_file|dotenv|environment_variables"
    r"|env_vars)(?:_(?:value|path|file|content|contents))?"
)
_CONTEXT = (
    r"(?:.*_)?(?:conversation|conversation_history|chat_history|message_history|chat_log|system_prompt"
    r"|system_message|developer_message|previous_messages|user_messages|full_context|context_window"
    r"|sidenote|side_note|chain_of_thought|reasoning_trace|memory_dump|(?:other|available)_tools|tool_outputs)"
)
_OF_SECRETS = (
    r"auth|log ?in|sign|credential|\bkey|token|passw|passphrase|secret|connect|crypt|account|access|cookie"
    r"|environment|\benv\b|session|protect|unlock"
)
_OF_CONTEXT = r"conversation|chat|message|prompt|history|context|memory|reason|think|thought|note"
_ASKED = (
    (re.compile(_SECRETS), "a secret", re.compile(_OF_SECRETS, re.IGNORECASE)),
    (re.compile(_CONTEXT), "the conversation", re.compile(_OF_CONTEXT, re.IGNORECASE)),
)
"""What arguments are named after, and the words in a tool's text that explain them."""


def contradictions(server: str, tool: Tool) -> Iterator[Finding]:
    """Yield a warning if a tool's hints say that it does not do what its name says."""
    verb = next((word.lower() for word in _WORDS.findall(tool.name)), "")
    if tool.annotations.get("readOnlyHint") is True and _CHANGES.fullmatch(verb):
        message = f"is named {tool.name} and claims to be read-only"
        yield _warning(server, tool, "annotations", message, "annotations.readOnlyHint")
    elif tool.annotations.get("destructiveHint") is False and _DELETES.fullmatch(verb):
        message = f"is named {tool.name} and claims not to be destructive"
        yield _warning(server, tool, "annotations", message, "annotations.destructiveHint")


def unexplained_arguments(server: str, tool: Tool) -> Iterator[Finding]:
    """Yield a warning for each argument that asks for what a tool's name and description do not explain."""
    properties = tool.input_schema.get("properties")
    said = f"{tool.name} {tool.title} {tool.description}"
    unexplained = [(name, what) for name, what, explained in _ASKED if not explained.search(said)]
    for key in properties if isinstance(properties, dict) else ():
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key[:_LONGEST]).replace("-", "_").lower()
        for name, what in unexplained:
            if name.fullmatch(snake):
                message = f"asks for {what} in the argument {key}, which its description does not explain"
                where = f"inputSchema.properties.{key}"
                yield _warning(server, tool, "unexplained-argument", message, where)


def _warning(server: str, tool: Tool, rule: Rule, message: str, where: str) -> Finding:
    return Finding(server=server, tool=tool.name, rule=rule, severity="warning", message=message, where=where)
