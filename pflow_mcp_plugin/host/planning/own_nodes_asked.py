"""The host's own nodes that words really ask for, such as `write-file` for "save it to a file"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pflow_mcp_plugin.host.planning.task_literals import Literal

SOURCE = "pflow"
"""The source of the host's own nodes."""
MODEL, COMMAND, READ, WRITE, ECHO = "llm", "shell", "read-file", "write-file", "echo"
_MODEL = re.compile(
    r"\b(?:summari[sz]\w*|(?<!the )(?:summar(?:y|ies)|digest)|classif\w+|categori[sz]\w+|translat\w+"
    r"|rephras\w+|rewrit\w+|paraphras\w+|proofread\w*|llm|language model)\b",
    re.IGNORECASE,
)
_MADE = re.compile(
    r"\b(?:create|draft|generate|get|give|make|prepare|produce|write)\s+(?:\w+\s+){0,3}?(?:summary|digest)\b",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"\b(?:run|execute)\b.*(?:`|\b(?:command|script|shell|program)\b)|\b(?:bash|shell)\b",
    re.IGNORECASE | re.DOTALL,
)
_READ = re.compile(r"\b(?:read|open|load|parse|import|show|take|use)\b", re.IGNORECASE)
_WRITE = re.compile(r"\b(?:sav|writ|stor|append|export|dump|record|put|keep)\w*\b", re.IGNORECASE)
_ECHO = re.compile(r"\becho\b", re.IGNORECASE)
_FILE = re.compile(
    r"(?<!word )(?<!excel )(?<!pdf )(?<!audio )(?<!image )(?<!video )\b(?:files?|disk)\b", re.IGNORECASE
)
_TEXT_NAME = (
    r"\.(?:bib|c|cfg|conf|cpp|css|csv|env|go|h|html?|ics|ini|ipynb|java|js|jsonl?|log|md|ps1|py|rb|rs|rst|sh"
    r"|sql|tex|toml|ts|tsv|txt|xml|ya?ml)"
)
_TEXT_FILE = re.compile(rf".*{_TEXT_NAME}", re.IGNORECASE | re.DOTALL)
_INTO = re.compile(rf"\b(?:into|to)\s+[\"'`]?\S+{_TEXT_NAME}\b", re.IGNORECASE)


def asked_nodes(clause: str, values: Sequence[Literal]) -> dict[str, str]:
    """Return the host's own nodes that a clause asks for, as they run, each with the word that asks for it.

    Args:
        clause: The clause as written.
        values: The literals in it.
    """
    return dict(_asked(clause, values))


def _asked(clause: str, values: Sequence[Literal]) -> Iterator[tuple[str, str]]:
    names_text_file = any(_TEXT_FILE.fullmatch(it.value) for it in values if it.kind == "path")
    names_file = names_text_file or _FILE.search(clause) is not None
    model, read, write = _MODEL.search(clause), _READ.search(clause), _WRITE.search(clause)
    into = _INTO.search(clause)
    if names_file and not write and not into and (read or (model and names_text_file)):
        yield READ, read[0] if read else "file"
    if command := _COMMAND.search(clause):
        yield COMMAND, command[0].split()[0]
    if model:
        yield MODEL, model[0]
    if names_file and (write or (model and into)):
        yield WRITE, write[0] if write else "into"
    if echo := _ECHO.search(clause):
        yield ECHO, echo[0]


def asks_for_text_only(clause: str) -> bool:
    """Return whether a clause asks a language model for a text and for nothing else, as "make a summary"."""
    return _MADE.search(clause) is not None
