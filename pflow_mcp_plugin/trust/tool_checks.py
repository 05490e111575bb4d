"""Checks for suspicious tools: what a server says about itself and its tools, without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.schemas.schema_reader import table_of
from pflow_mcp_plugin.terminal.human_units import names_text
from pflow_mcp_plugin.trust.hidden_text import Finding, Rule, Text, hidden_text, texts
from pflow_mcp_plugin.trust.name_index import Named, NameIndex, index_names, is_unmistakable, shapes
from pflow_mcp_plugin.types import Tool


def check_tools(
    server: str, tools: Iterable[Tool], instructions: str, names: NameIndex, later: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield the findings of all checks of a server's tools, tool by tool; never raises."""
    listed = list(tools)
    yield from claimed_names(server, (tool.name for tool in listed), names, later)
    said = [Text("instructions", instructions, "prose")]
    yield from hidden_text(server, "", said)
    yield from shadowing(server, "", said, names)
    for tool in listed:
        every = list(texts(tool))
        yield from hidden_text(server, tool.name, every)
        yield from shadowing(server, tool.name, every, names)
        yield from contradictions(server, tool)
        yield from unexplained_arguments(server, tool)


_DELETES = re.compile(r"delete|remove|drop|destroy|erase|purge|wipe|truncate|kill|uninstall|overwrite|revoke")
_CHANGES = re.compile(
    rf"{_DELETES.pattern}|write|create|insert|update|modify|edit|rename|move|upload|send|install|execute"
)
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
"""What arguments with such names ask for, and the words in a tool's text that explain them."""


def contradictions(server: str, tool: Tool) -> Iterator[Finding]:
    """Check for hints of a tool that contradict its name, such as a read-only `delete_file`."""
    verb = next((word.lower() for word in _WORDS.findall(tool.name)), "")
    if tool.annotations.get("readOnlyHint") is True and _CHANGES.fullmatch(verb):
        message = f"is named {tool.name} and claims to be read-only"
        yield _warning(server, tool.name, "annotations", message, "annotations.readOnlyHint")
    elif tool.annotations.get("destructiveHint") is False and _DELETES.fullmatch(verb):
        message = f"is named {tool.name} and claims not to be destructive"
        yield _warning(server, tool.name, "annotations", message, "annotations.destructiveHint")


def unexplained_arguments(server: str, tool: Tool) -> Iterator[Finding]:
    """Check for arguments that ask for a secret or the conversation without saying why; yield findings."""
    said = f"{tool.name} {tool.title} {tool.description}"
    unexplained = [(name, what) for name, what, explained in _ASKED if not explained.search(said)]
    for key in table_of(tool.input_schema.get("properties")):
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key[:200]).replace("-", "_").lower()
        for name, what in unexplained:
            if name.fullmatch(snake):
                message = f"asks for {what} in the argument {key}, which its description does not explain"
                where = f"inputSchema.properties.{key}"
                yield _warning(server, tool.name, "unexplained-argument", message, where)


_WORD = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]+(?:[-_./:]+[A-Za-z0-9]+)+|[a-z0-9]+[A-Z][A-Za-z0-9]*)")
"""A name of several parts, a node type, or a path such as `github/create_issue`."""
_QUOTED = re.compile(r"[`'\"\u201c\u2018]([A-Za-z0-9]{3,40})[`'\"\u201d\u2019]")
_SERVER_AND = re.compile(r"([A-Za-z0-9-]+)(?:[./:]+|__)(\w[\w-]*)")
_NEAR = 60
"""Characters within which the name of a server stands beside that of its tool."""


def shadowing(server: str, tool: str, texts: Iterable[Text], names: NameIndex) -> Iterator[Finding]:
    """Yield a finding for each text that is suspicious because it names a tool of another server.

    A name means a tool if it has several parts (`create_issue`), is a node type, stands after its server's
    name (`github.search`), or is quoted beside it. Names that this server has too mean its own.
    """
    own = names.tools.get(server, frozenset())
    for where, text, kind in texts:
        if kind != "prose":
            continue
        other = next(
            (it for it in _mentioned(text, names) if it.server != server and it.tool not in own), None
        )
        if other:
            yield _warning(server, tool, "shadowing", f"names {other}", where)


def _mentioned(text: str, names: NameIndex) -> Iterator[Named]:
    for found in _WORD.finditer(text):
        word = found.group()
        if is_unmistakable(word):
            yield from (Named(owner, word) for owner in names.by_tool.get(word, ()))
        yield from names.by_node.get(word.lower(), ())
        prefixed = _SERVER_AND.fullmatch(word)
        if prefixed and prefixed[2] in names.tools.get(prefixed[1].lower(), ()):
            yield Named(prefixed[1].lower(), prefixed[2])
    for found in _QUOTED.finditer(text):
        for owner in names.by_tool.get(found[1], ()):
            near = text[max(found.start() - _NEAR, 0) : found.end() + _NEAR].lower()
            if re.search(rf"(?<![\w-]){re.escape(owner)}(?![\w-])", near):
                yield Named(owner, found[1])


_NAMED = 5


def claimed_names(
    server: str, tools: Iterable[str], names: NameIndex, later: Collection[str] = ()
) -> Iterator[Finding]:
    """Check for suspicious names of a server and its tools: those that are or look like another's.

    Clashes with tools of the servers in `later` are left to the warnings about those.
    """
    given = list(dict.fromkeys(tools))
    for named in (Named(server, ""), *(Named(server, tool) for tool in given)):
        mine = named.tool or named.server
        alike = [
            other
            for shape in sorted(shapes(mine))
            for (is_tool, name), other in names.by_shape.get(shape, {}).items()
            if name != mine and is_tool == bool(named.tool)
        ]
        if alike:
            yield _warning(*named, "look-alike", f"looks like {alike[0]}, but is a different name")
        other = _claimant(named, names) if named.tool else None
        if other:
            yield _warning(*named, "name-claimed-twice", f"claims the name of {other}")
    both = []
    for tool in filter(is_unmistakable, given):
        others = [owner for owner in names.by_tool.get(tool, ()) if owner not in (server, *later)]
        both += [f"{tool} ({others[0]})"] if others else []
    if both:
        message = f"have the same names as tools of other servers: {names_text(both, _NAMED)}"
        yield _warning(server, "", "name-claimed-twice", message, "tools")


def _claimant(named: Named, names: NameIndex) -> Named | None:
    # By its node type, or by spelling it out: `github_create_issue` of any server but `github`, if that has
    # the tool.
    slug = naming.slug(named.tool)
    words = slug.split("-")
    servers = ("-".join(words[:count]) for count in range(1, min(len(words), 8)))
    spelled = [f"{naming.PREFIX}{slug}"]
    spelled += [naming.node_name(server, slug) for server in servers if server in names.tools]
    for other in names.by_node.get(naming.node_name(*named), ()):
        if other != named:
            return other
    candidates = (other for node in spelled for other in names.by_node.get(node, ()))
    return next((other for other in candidates if other.server != named.server), None)


def _warning(server: str, tool: str, rule: Rule, message: str, where: str = "name") -> Finding:
    return Finding(server=server, tool=tool, rule=rule, severity="warning", message=message, where=where)


_NOTED = 10
"""Findings that a sync shows of each server."""


def audit(
    catalog: Catalog,
    servers: Iterable[str],
    *,
    nodes: Collection[str] = (),
    allowed: Callable[[str, str], bool] = lambda _server, _tool: True,
) -> Iterator[Finding]:
    """Run all checks of tools on servers as last synced: yield what is suspicious, start no server.

    Each is compared with all servers of the catalog, and with the node types of others. Tools that are not
    `allowed` by server and name become no nodes, and are left out.
    """
    every = {
        server: [tool for tool in readable_names(catalog, server) if allowed(server, tool)]
        for server in catalog.servers()
    }
    names = index_names(every, nodes)
    ordered = list(servers)
    for number, server in enumerate(ordered, start=1):
        content = catalog.file(server)
        if content:
            tools = [tool for tool in content.tools if allowed(server, tool.name)]
            yield from check_tools(server, tools, content.info.instructions, names, ordered[number:])


def readable_names(catalog: Catalog, server: str) -> tuple[str, ...]:
    """Return the names of a server's tools that the checks compare; none if its tool file is unreadable."""
    try:
        return catalog.tool_names(server)
    except storage.StoreError:  # the others must be checked all the same
        return ()


def notes(server: str, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield what the checks of tools found suspicious, as lines: errors first, not all of many."""
    found = sorted(findings, key=lambda finding: finding.severity)  # stable, and `error` comes first
    for finding in found[:_NOTED]:
        whose = f"{finding.tool}: " if finding.tool else ""
        mark = "error: " if finding.severity == "error" else ""
        yield f"{mark}{whose}{finding.where} {finding.message} [{finding.rule}]"
    if len(found) > _NOTED:
        yield f"and {len(found) - _NOTED} more findings: pflow mcp audit {server}"
