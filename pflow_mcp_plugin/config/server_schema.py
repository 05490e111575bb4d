"""The schema of `mcp-servers.toml`: checks of the raw document and each of its tables, all problems at once.

The rules are those of the config format; types, limits and placement are read from `mcp-servers.schema.json`,
which editors use too. And the program that a server's `command` names: found before a start, or reported as
missing. Importing this loads nothing that starts a process, so that lists can use it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin import naming, variable_references
from pflow_mcp_plugin.config.field_checks import RULES, checks_of, fields, join, kind_of, nearest, unknown
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.problems import advice, fault, problem_of
from pflow_mcp_plugin.errors import ConnectionFailed, Where
from pflow_mcp_plugin.types import NetworkRules, Server, ToolFilter
from pflow_mcp_plugin.variable_references import VariableReference, substitute

if TYPE_CHECKING:
    from pflow_mcp_plugin.config.field_checks import Check
    from pflow_mcp_plugin.contract import Problem
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
    from pflow_mcp_plugin.types import Server, Transport

SERVERS = "mcpServers"
DEFAULTS = "defaults"
SERVE = "serve"
"""The table about pflow as a server."""
NETWORK = "network"
"""The table of rules for the hosts that servers are reached at."""

FLOWS = "flows"
"""The table of the policy on data flows, which the host reads from a file of its own."""
_TABLES = dict.fromkeys((SERVERS, DEFAULTS, SERVE, NETWORK))

TRANSPORTS: tuple[Transport, ...] = ("stdio", "http", "sse", "uds", "pipe")
SPELLINGS: Mapping[str, Transport] = {
    **{name: name for name in TRANSPORTS},
    "stream-http": "http",
    "streamable-http": "http",
}
"""The spellings that the schema accepts for a server's `type`, and the transport of each."""

HTTP = ("timeout", "sse_timeout", "insecure", "tls_pins", "ca_bundle", "client_cert")
"""Fields that only http and sse servers use; elsewhere they have no effect."""

_SERVER = RULES["$defs"]["server"]


def _check_auth(path: str, value: JSON) -> Iterator[Problem]:
    from pflow_mcp_plugin.config.auth import check  # few servers have such a table

    return check(path, value)


FIELDS = checks_of(_SERVER["properties"], {"auth": _check_auth})
DEFAULTABLE = checks_of(RULES["$defs"]["defaults"]["properties"])
SERVE_FIELDS = checks_of(RULES["properties"][SERVE]["properties"])
NETWORK_FIELDS = checks_of(RULES["properties"][NETWORK]["properties"])

REACH = tuple(key for key in FIELDS if any(key in rule["then"]["properties"] for rule in _SERVER["allOf"]))
"""The fields that describe how to connect to a server; each transport has its own."""

REACHED_BY: Mapping[Transport, tuple[str, ...]] = {
    SPELLINGS[spelling]: (
        *then["required"],
        *(key for key in REACH if key not in {*then["required"], *then["properties"]}),
    )
    for named, then in ((rule["if"]["properties"]["type"], rule["then"]) for rule in _SERVER["allOf"])
    for spelling in named.get("enum", [named.get("const")])
}
"""The fields of `REACH` that each transport has; the first is required."""

_IDENTITY = ("type", *REACH, "env", "protocol")
_EXAMPLES = {
    "command": 'command = "npx"',
    "url": 'url = "https://mcp.example.com/mcp"',
    "path": 'path = "/run/server.sock"',
}


def server_path(name: str) -> str:
    """Return the config path of a server's table, under which the schema's checks report problems."""
    return join(SERVERS, name)


def clean(table: JSON) -> JSON:
    """Return a server's raw table as the schema has it: no null keys, `type` in its canonical spelling.

    A value that is not a table is returned unchanged, so that the check reports it.
    """
    if not isinstance(table, Mapping):
        return table
    kept = _without_nulls(table)
    spelling = kept.get("type")
    if isinstance(spelling, str) and spelling in SPELLINGS:
        kept["type"] = SPELLINGS[spelling]
    if kept.get("type") == "stdio":
        del kept["type"]
    return kept


def nulls(table: JSONObject) -> tuple[str, ...]:
    """Return the variables and headers that are null in a raw table, which the schema leaves out."""
    inside = ((key, mapping(table.get(key))) for key in ("env", "headers"))
    return tuple(join(key, str(name)) for key, values in inside for name in values if values[name] is None)


def transport_of(table: JSONObject) -> Transport | None:
    """Return the transport of a raw table by the schema of `type`: stdio by default, None if unknown."""
    spelling = table.get("type", "stdio")
    return SPELLINGS.get(spelling) if isinstance(spelling, str) else None


def is_remote(table: JSON) -> bool:
    """Whether a server's table names a transport of HTTP, so that the fields of `HTTP` have an effect."""
    return isinstance(table, Mapping) and transport_of(table) in ("http", "sse")


def check_flows(document: JSONObject) -> list[Problem]:
    """Check the raw `mcp-servers.toml` for a policy on data flows: its schema has no place for one."""
    # An error, unlike other unknown tables: a policy must not be ignored.
    if FLOWS not in document:
        return []
    step = f"Move [{FLOWS}] to the file pflow.toml in the same folder"
    return [fault(FLOWS, "A policy on data flows has no effect in this file", step)]


def check_document(document: JSONObject) -> list[Problem]:
    """Check the whole config against the schema; return every problem."""
    servers, defaults = document.get(SERVERS, {}), document.get(DEFAULTS, {})
    problems = []
    for key, value in document.items():
        if key in (*_TABLES, FLOWS, "$schema") or _is_meant_as_network(key, value):
            continue
        if _is_like_server(value):
            step = f"Write [{server_path(key)}]"
            wrong = f"{key} looks like a server, but is not under {SERVERS}"
            problems.append(advice(join("", key), wrong, step))
        else:
            problems.append(unknown(join("", key), key, _TABLES))
    problems += [
        *check_flows(document),
        *check_defaults(defaults),
        *check_serve(document.get(SERVE, {})),
        *check_network(document),
    ]
    if not isinstance(servers, Mapping):
        wrong = f"Must be a table of servers, not {kind_of(servers)}"
        return [*problems, fault(SERVERS, wrong, f"Write one table for each server: [{SERVERS}.NAME]")]
    for name, table in servers.items():
        problems += check_server(name, table, defaults)
    return problems


def check_defaults(defaults: JSON) -> list[Problem]:
    """Check the `[defaults]` table against the schema; return every problem."""
    own = [key for key in mapping(defaults) if key in FIELDS and key not in DEFAULTABLE]
    step = f"Move it to the servers that need it: [{SERVERS}.NAME]"
    others = {key: value for key, value in mapping(defaults).items() if key not in own}
    return [
        *(fault(join(DEFAULTS, key), f"{key} cannot be set for all servers", step) for key in own),
        *_check_table(DEFAULTS, others if isinstance(defaults, Mapping) else defaults, DEFAULTABLE),
    ]


def check_serve(table: JSON) -> list[Problem]:
    """Return all problems of the raw table `[serve]` in `mcp-servers.toml`, found by the schema."""
    return _check_table(SERVE, table, SERVE_FIELDS)


def check_network(document: JSONObject) -> list[Problem]:
    """Check a document's `[network]`, and tables with nearly its name, by the schema; return all problems."""
    # Unknown fields are errors, unlike elsewhere: a rule must not be ignored.
    misspelt = [key for key, value in document.items() if _is_meant_as_network(key, value)]
    return [
        *(unknown(join("", key), key, _TABLES, strict=True) for key in misspelt),
        *_check_table(NETWORK, document.get(NETWORK, {}), NETWORK_FIELDS, strict=True),
    ]


def _is_meant_as_network(key: str, value: JSON) -> bool:
    known = key in (*_TABLES, FLOWS, "$schema")
    return not known and not _is_like_server(value) and nearest(key, _TABLES) == NETWORK


def _check_table(
    name: str, table: JSON, known: Mapping[str, Check], *, strict: bool = False
) -> list[Problem]:
    if not isinstance(table, Mapping):
        return [fault(name, f"Must be a table, not {kind_of(table)}", f"Write [{name}]")]
    return [*fields(name, table, known, strict=strict)]


def check_server(name: str, table: JSON, defaults: JSON = None) -> list[Problem]:
    """Check one server's table against the schema; problems of `[defaults]` itself are left out."""
    path = server_path(name)
    problems: list[Problem] = []
    if not naming.is_server_name(name):
        wrong = "A server name may contain only a-z, 0-9 and hyphens"
        problems.append(fault(path, wrong, f"Name it {naming.server_name(name)}"))
    if not isinstance(table, Mapping):
        wrong = f"Must be a table, not {kind_of(table)}"
        return [*problems, fault(path, wrong, f"Write [{path}] with {_EXAMPLES['command']} under it")]
    given = _without_nulls(table)
    for key, value in given.items():
        place = join(path, key)
        if key in FIELDS:
            problems += FIELDS[key](place, value)
        elif _holds_null(value):
            problems.append(fault(place, "Contains null in a list, which TOML does not support", "Remove it"))
        elif key == "transport":
            problems.append(advice(place, "Unknown field transport, kept but not used", "Did you mean type?"))
        else:
            problems.append(unknown(place, key, FIELDS))
    return [
        *problems,
        *_check_transport(path, given),
        *_check_headers(path, given),
        *_check_tls(path, given, mapping(defaults)),
        *_check_deadlines(path, given, defaults),
    ]


def network_rules(document: JSONObject) -> NetworkRules:
    """Build the rules that a table `[network]` checked against the schema has, with the servers' hosts."""
    from urllib.parse import urlsplit

    table: Mapping[str, Any] = mapping(document.get(NETWORK))
    urls = (mapping(server).get("url") for server in mapping(document.get(SERVERS)).values())
    hosts = []
    for url in urls:
        if isinstance(url, str):
            with suppress(ValueError):
                hosts.append(urlsplit(variable_references.substitute(url, lambda _: "$")).hostname or "")
    return NetworkRules(
        policy=table.get("policy", "open"),
        allow=tuple(table.get("allow", ())),
        deny=tuple(table.get("deny", ())),
        # Others are decided by a variable.
        hosts=tuple(dict.fromkeys(host for host in hosts if host and "$" not in host)),
    )


def build(
    name: str,
    table: JSONObject,
    defaults: JSONObject,
    network: NetworkRules = NetworkRules(),  # noqa: B008 - frozen
) -> Server:
    """Build the `types.Server` that a table checked against the schema describes."""
    given = {**defaults, **_without_nulls(table)}
    chosen = {key: _converted(key, value) for key, value in given.items() if key in FIELDS and key != "type"}
    return Server(name=name, transport=transport_of(table) or "stdio", network=network, **chosen)


def fingerprint(table: JSON, defaults: JSON = None) -> str:
    """Return a hash of a server's table: of those fields of the schema that decide which tools it has.

    Deadlines, limits, trust, filters and renames are not part of it: they are read when a tool is
    used, so changing them requires no sync.
    """
    merged = {**mapping(defaults), **mapping(clean(table))}
    deciding = {key: merged[key] for key in _IDENTITY if key in merged}
    written = json.dumps(deciding, sort_keys=True, default=str)
    try:  # hashlib would load OpenSSL, which takes about a twentieth of the time of `mcp list`
        sha256 = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
    except ImportError:  # this Python has none of its own
        from hashlib import sha256
    return f"sha256:{sha256(written.encode()).hexdigest()}"


def _is_like_server(value: JSON) -> bool:
    return isinstance(value, Mapping) and bool(set(REACH) & value.keys())


def _check_transport(path: str, table: JSONObject) -> Iterator[Problem]:
    transport = transport_of(table)
    # A `type` that is not a string has been reported by the check of that field.
    if transport is None:
        if isinstance(table["type"], str):
            close = nearest(table["type"], tuple(SPELLINGS)) or ("http" if "url" in table else "stdio")
            wrong = f"Unknown transport {table['type']!r}; known: {', '.join(TRANSPORTS)}"
            yield fault(f"{path}.type", wrong, f'Write "type": "{SPELLINGS[close]}"')
        return
    if "type" not in table and "command" not in table:
        field = next((key for key in ("url", "path") if key in table), "")
        if field:
            inferred = "http" if field == "url" else "uds"
            wrong = f"A server with a {field} needs its type; "
            wrong += "without one it is a stdio server, which has a command"
            yield fault(f"{path}.type", wrong, f'Add "type": "{inferred}" (in the file: type = "{inferred}")')
            return
    yield from _check_reach(path, transport, table)


def _check_reach(path: str, transport: Transport, table: JSONObject) -> Iterator[Problem]:
    required = REACHED_BY[transport][0]
    if required not in table:
        wrong = f"A {transport} server needs a {required}"
        yield fault(join(path, required), wrong, f"Add {_EXAMPLES[required]}")
    for key in table:
        if key in REACH and key not in REACHED_BY[transport]:
            owners = [owner for owner in TRANSPORTS if key in REACHED_BY[owner]]
            wrong = f"A {transport} server has no {key}; it belongs to {' and '.join(owners)}"
            yield fault(join(path, key), wrong, f'Remove it, or write "type": "{owners[0]}"')
        elif key == "memory_limit_mb" and "command" not in table:
            wrong = f"{key} has no effect on this {transport} server, as pflow does not start it"
            yield advice(join(path, key), wrong, "")
        elif key in HTTP and not is_remote(table):
            wrong = f"{key} has no effect on this {transport} server"
            step = "Use startup_timeout or call_timeout" if "timeout" in key else ""
            if key == "tls_pins":  # whoever pins a key relies on it
                yield fault(join(path, key), wrong, "Remove it")
            else:
                yield advice(join(path, key), wrong, step)


def _check_headers(path: str, table: JSONObject) -> Iterator[Problem]:
    own, headers = mapping(table.get("auth")), mapping(table.get("headers"))
    if not headers:
        return
    from pflow_mcp_plugin.config.auth import header_of  # not needed for a list of local servers
    from pflow_mcp_plugin.network.http_headers import FRAMING

    set_by_auth = header_of(own).lower() if own else ""
    seen: set[str] = set()
    for name in headers:
        place, lower = join(f"{path}.headers", name), name.lower()
        if lower in (*FRAMING, "mcp-session-id"):
            yield fault(place, f"The header {name} is set by pflow itself", "Remove it")
        elif lower in seen:
            yield fault(place, f"The header {name} is set twice", "Keep one of them")
        elif lower == set_by_auth:
            yield advice(place, f"The header {name} has no effect, as auth sets it", "Remove one of them")
        seen.add(lower)


def _check_tls(path: str, table: JSONObject, defaults: JSONObject) -> Iterator[Problem]:
    url = table.get("url")
    if not isinstance(url, str):
        return
    if table.get("insecure") is True and url.lower().startswith("https:"):
        wrong = (
            "insecure allows plain http, and has no effect on an https url: certificates are always checked"
        )
        step = "Remove it; to trust a certificate, set ca_bundle to its file"
        yield advice(join(path, "insecure"), wrong, step)
    if not (is_remote(table) and url.lower().startswith("http:")):
        return
    for key in ("tls_pins", "ca_bundle", "client_cert"):
        if key in table:
            wrong = f"{key} has no effect on plain http, where no server proves its identity"
            yield fault(join(path, key), wrong, f"Write https in its url, or remove {key}")
    # In [defaults], the other two may well be meant for other servers.
    if "tls_pins" in defaults and "tls_pins" not in table:
        wrong = f"tls_pins of [{DEFAULTS}] cannot be checked over plain http"
        step = "Write https, or remove tls_pins there and set it for the servers that need it"
        yield fault(join(path, "url"), wrong, step)


def _check_deadlines(path: str, table: JSONObject, defaults: JSON) -> Iterator[Problem]:
    merged = {**mapping(defaults), **table}
    default = attrs.fields_dict(Server)
    idle, whole = (merged.get(key, default[key].default) for key in ("call_timeout", "call_timeout_max"))
    if not (isinstance(idle, int | float) and isinstance(whole, int | float)):
        return
    if idle > whole and "call_timeout" in table:
        wrong = f"call_timeout ({idle}) is longer than call_timeout_max ({whole}), the limit of a whole call"
        yield advice(join(path, "call_timeout"), wrong, f"Set call_timeout_max to at least {idle}")


def _converted(key: str, value: Any) -> Any:
    if key in ("args", "tls_pins") and not isinstance(value, str):
        return tuple(value)
    if key == "client_cert":
        return (value,) if isinstance(value, str) else (value["cert"], value["key"])
    if key == "tools":
        return ToolFilter(allow=tuple(value.get("allow", ())), deny=tuple(value.get("deny", ())))
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _without_nulls(table: JSONObject) -> dict[str, JSON]:
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }


def _holds_null(value: JSON) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_null(item) for item in value.values())
    return value is None or (isinstance(value, list) and any(_holds_null(item) for item in value))


def mapping(value: JSON) -> JSONObject:
    """Return a raw value as a table; empty if it is none, which the checks by the server schema report."""
    return value if isinstance(value, Mapping) else {}


def advise(server: Server, known: str = "") -> Problem | None:
    """For the check of a server: return a warning if the program of its `command`, or its `cwd`, is missing.

    `known` is where its last sync found the program.
    """
    # Nothing can be said of a server with a variable that is not in the environment.
    if not server.command:
        return None
    try:
        folder = None if server.cwd is None else _expanded(server.cwd)
        expanded = attrs.evolve(server, command=_expanded(server.command), cwd=folder)
        find_program(expanded, {"PATH": _expanded(server.env.get("PATH", "${PATH}"))}, known)
    except KeyError:
        return None
    except ConnectionFailed as error:
        return problem_of(error, severity="warning", kind="config", source="mcp")
    return None


def _expanded(text: str) -> str:

    def value(reference: VariableReference) -> str:
        found = os.environ.get(reference.name)
        if not (found or reference.default):
            raise KeyError(reference.name)
        return found or reference.default or ""

    return substitute(text, value)


def kept_program(server: Server, before: str) -> str:
    """For a server's table: return where the program is now; `PATH` may be shorter at a start."""
    if not server.command or os.sep in server.command:
        return ""
    try:
        found = find_program(server, {"PATH": server.env.get("PATH", os.environ.get("PATH", ""))}, before)
        return str(Path(found).absolute())  # a relative folder in `PATH` means another folder elsewhere
    except ConnectionFailed:  # it was started with the `PATH` of another process
        return before


def find_program(server: Server, environment: Mapping[str, str], known: str = "") -> str:
    """For a check or a start of a server: return the path of the program that `command` in its table names.

    What `PATH` lacks, as under cron, is looked for beside the running Python, and where it was `known` to be.
    Raises `ConnectionFailed` if its working folder or the program is missing, or may not be executed.
    """
    where = Where(server=server.name, phase="start")
    if server.cwd is not None and not _is_dir(server.cwd):
        wrong = "is not a folder" if os.path.exists(server.cwd) else "does not exist"  # noqa: PTH110
        message = f"The working folder of server {server.name} {wrong}: {server.cwd}"
        raise _lacking(server.cwd, message, f"Correct cwd of server {server.name}", where)
    if os.sep in server.command:
        path = Path(server.cwd or ".", server.command)
        if not os.path.exists(path):  # noqa: PTH110  # False, too, for a name that is too long
            message = f"Command not found: {server.command} (server {server.name})"
            raise _lacking(path, message, "Correct the path in command", where)
        if _is_dir(path) or not os.access(path, os.X_OK):
            raise _denied(server.command, server, where)
        return str(path.absolute())
    import shutil

    found = shutil.which(server.command, path=environment.get("PATH"))
    if found:
        return found
    not_executable = shutil.which(server.command, mode=os.F_OK, path=environment.get("PATH"))
    if not_executable is not None:
        raise _denied(not_executable, server, where)
    elsewhere = shutil.which(server.command, path=str(Path(sys.executable).parent)) or shutil.which(known)
    if elsewhere:
        return elsewhere
    from pflow_mcp_plugin.processes import missing_programs

    # The login shell is not asked: other servers' connections would wait for it.
    known = missing_programs.remedy(server.command, ask_shell=False)
    near = None if known else closest_program(server.command, environment.get("PATH", ""))
    otherwise = f"Did you mean {near}?" if near else "Install it, or give its full path as command"
    message = f"Command not found: {server.command} (server {server.name})"
    raise ConnectionFailed(message, where=where, next_step=known or otherwise, closest=near)


def _lacking(path: str | Path, message: str, step: str, where: Where) -> ConnectionFailed:
    """For the check of a server: return the error about a missing program or folder to start it in."""
    for folder in reversed(Path(path).parents):
        try:
            os.stat(f"{folder}/.")  # noqa: PTH116 - a path has no such end
        except PermissionError:
            message = f"Permission denied: {folder} may not be entered (server {where.server})"
            step = f"Correct the permissions of {folder}"
            break
        except (OSError, ValueError):
            break
    return ConnectionFailed(message, where=where, next_step=step)


def _is_dir(path: str | Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # False, too, for a name that is too long or cannot be reached


def _denied(path: str, server: Server, where: Where) -> ConnectionFailed:
    message = f"Permission denied: {path} is not executable (server {server.name})"
    return ConnectionFailed(message, where=where, next_step=f"chmod +x {path}")


def closest_program(name: str, path: str) -> str | None:
    """For the check of a server: return the program on `path` that its `command` may mean; None if none."""
    import difflib

    names: set[str] = set()
    for folder in path.split(os.pathsep):
        with suppress(OSError):
            names.update(path.name for path in Path(folder).iterdir())
    return next(iter(difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75)), None)
