"""A server for display: its secrets are masked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from pflow_mcp_plugin import secret_detection
from pflow_mcp_plugin.secret_detection import MASK, mask, tokens
from pflow_mcp_plugin.terminal.looks import one_line

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
    from pflow_mcp_plugin.types import Server

_DECIDE_CODE = (
    r"PATH|PATHEXT|COMSPEC|HOME|USERPROFILE|APPDATA|XDG_(?:CONFIG|DATA)_(?:HOME|DIRS)|SHELL|EDITOR|VISUAL|PAGER"
    r"|BROWSER|(?:SSH|GIT|SUDO)_ASKPASS|(?:LD|DYLD)_.*|GCONV_PATH|GLIBC_TUNABLES|LOCPATH|OPENSSL_.*"
    r"|BASH_(?:ENV|FUNC_.*)|BASHOPTS|SHELLOPTS|ENV|ZDOTDIR|IFS|CDPATH|PS4|PROMPT_COMMAND"
    r"|PYTHON(?!UTF8|IOENCODING|UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|WARNDEFAULTENCODING).*|VIRTUAL_ENV|CONDA_.*"
    r"|(?:UV|PIP|PIPX|POETRY|PEX|TSX|TS_NODE)_.*|SSLKEYLOGFILE|(?:NODE|NPM|YARN|PNPM|BUN|DENO|COREPACK)_(?!ENV$).*|BERRY_.*"
    r"|PERL.*|RUBY(?:LIB|OPT)|GEM_.*|BUNDLE_.*|PHPRC|PHP_INI_SCAN_DIR|LUA_.*|R_(?:PROFILE|ENVIRON|LIBS).*"
    r"|JAVA_.*|_JAVA_OPTIONS|JDK_.*|CLASSPATH|MAVEN_.*|GRADLE_.*|(?:DOTNET|CORECLR|COMPLUS|NUGET)_.*"
    r"|GO(?:FLAGS|PATH|PROXY|ROOT|TOOLCHAIN)|CARGO_.*|RUSTC_.*|JULIA_.*|ERL_.*|ELIXIR_.*|GUILE_.*|TCL.*"
    r"|(?:DOCKER|CONTAINER|PODMAN|KUBE)_?(?:HOST|CONFIG|CONTEXT|CONTENT_TRUST.*)|CONTAINERS_.*|NIX_.*"
    r"|GIT_(?:SSH.*|EXEC_PATH|CONFIG.*|TEMPLATE_DIR|EXTERNAL_DIFF|PROXY_COMMAND|EDITOR|PAGER|DIR)"
)


def decides_code(name: str) -> bool:
    """Whether display masks less of a variable, as its name is one that decides what code a program runs."""
    # npm reads its variables in either case, Windows all variables. Compiled when used: it takes 1 ms.
    return re.fullmatch(_DECIDE_CODE, name, re.IGNORECASE) is not None


Hide = Callable[[str], str]
"""Returns what to show in place of a secret."""

_USER_INFO = re.compile(r"(?<=://)[^/?#]*@")
_DEFAULT = re.compile(r"\$\{(?P<name>\w+):-(?P<default>[^{}]+)\}")
_OPAQUE = r"[A-Za-z0-9_+~-]"
"""A character of a secret. A text with other characters may be a command, a path or an address."""
_SECRET_ONLY = (
    r"(?ai)(?:(?:basic|bearer|digest|token|apikey|negotiate) +)?(?!~)"
    rf"(?:\$\{{\w+(?::-{_OPAQUE}*={{0,2}})?\}}[:;,/@]?|{_OPAQUE})+={{0,2}}"
)
_KEY_FILE = (
    r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----\s+(?:[A-Za-z0-9+/=]{40,}\s+)+[A-Za-z0-9+/=]*\s*"
    r"(?:-----END [A-Z ]{0,20}PRIVATE KEY-----)?\s*"
)
"""The whole of a private key: anything else could stand between its marks."""
_ASSIGNED = r"\w+=[^\s;|&<>(){}/]+"
"""A variable with a word that names no other program."""
_PACKAGE_RUNNERS = frozenset(("npm", "npx", "npm-cli", "npx-cli", "pnpm", "pnpx", "yarn", "bun", "bunx"))
_RUNNERS = _PACKAGE_RUNNERS.union(
    ("python", "pypy", "node", "nodejs", "deno", "corepack", "tsx", "ts-node", "uv", "uvx", "pip", "pipx"),
    ("poetry", "conda", "ruby", "bundle", "perl", "php", "lua", "java", "dotnet", "dnx", "go", "cargo"),
    ("docker", "podman", "nerdctl", "sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "ash"),
    ("busybox", "env", "sudo", "doas", "nice", "nohup", "setsid", "stdbuf", "timeout", "time", "xargs"),
    ("exec", "cmd", "start", "powershell", "pwsh", "wsl", "ssh", "nix", "nix-shell", "mise", "asdf"),
    ("direnv", "make", "just", "script", "strace", "unshare", "flatpak", "snap"),
)
_VERSION_AND_SUFFIX = r"[\d.]*(?:\.(?:exe|cmd|bat|ps1|c?js))?$"
_SUBCOMMANDS = frozenset(("/c", "create", "dlx", "exec", "init", "install", "run", "tool", "x"))
_ALONE = r"-(?:[yqitdBuEsSIlx-]|it|ti)|--(?:yes|no|quiet|silent|rm|init|offline)"
"""Options without an argument. What follows any other may be the program, if the runner does not know it."""
_NAMING = frozenset(["-c", "-e", "-m", "-jar", "--call", "--eval", "--module"])
"""Options whose argument is the program."""


def command_line(server: Server) -> str:
    """Return a server's shell command for display in one line, its secrets masked; empty if it has none."""
    words = [server.command, *arguments(server.args, command=server.command)]
    return one_line(shlex.join(words)) if server.command else ""


def target(server: Server) -> str:
    """Return a server's URL, path or command for display in one line, its secrets masked."""
    return one_line(url(server.url) or server.path or command_line(server))


def url(value: str, hide: Hide = mask, *, widely: bool = False, tokens_too: bool = True) -> str:
    """Return a server's URL for display: user info, query values such as `?api_key=` and tokens are masked.

    `widely` also hides what is in the place of a secret but may be something else, such as code. People who
    approve a server have to see that; logs, errors and shared files need not show it. `tokens_too` hides what
    has only the shape of a token.
    """

    def hidden(found: str) -> str:
        return hide(found) if widely or is_secret_only(found) else found

    def without_default(reference: re.Match[str]) -> str:
        if not secret_detection.is_secret(reference["name"]):
            return reference[0]
        return f"${{{reference['name']}:-{hidden(reference['default'])}}}"

    def hidden_user(found: re.Match[str]) -> str:
        # The user may pose as the host: a name with dots does.
        user, _, password = found[0][:-1].partition(":")
        is_secret = widely or all(map(is_secret_only, filter(None, (user, password))))
        return (hide(found[0][:-1]) if is_secret else found[0][:-1]) + "@"

    value = _USER_INFO.sub(hidden_user, _DEFAULT.sub(without_default, value))
    # From the end, so that the earlier positions stay valid.
    for start, end in reversed(list(secret_detection.in_queries(value))):
        value = value[:start] + hidden(value[start:end]) + value[end:]
    for token in reversed(tokens(value) if tokens_too else ()):
        if (
            widely
            or token.variable != "PRIVATE_KEY"
            or re.compile(_KEY_FILE).fullmatch(value, token.start, token.end)
        ):
            value = value[: token.start] + hide(value[token.start : token.end]) + value[token.end :]
    return value


def is_secret_only(value: str) -> bool:
    """Whether to display a config's value masked: a secret belongs there, and it can be nothing else."""
    return re.fullmatch(_SECRET_ONLY, value) is not None


def is_random(value: str) -> bool:
    """Whether a server is shown with a value masked for its look alone: a long word with digits."""
    return re.search(r"(?=.*\d)(?=.*[A-Za-z]).{12,}", value) is not None and is_secret_only(value)


def arguments(
    args: Sequence[str], hide: Hide = mask, *, command: str = "", widely: bool = False
) -> list[str]:
    """Return a command's arguments for display, their secrets masked; `widely` as for `url`.

    What an interpreter or a package runner as `command` may start is shown, even if it looks like a secret.
    """
    shown = list(args)
    started = set() if widely else startable([command, *args])
    for index, start in secret_detection.in_arguments(args):
        before, value = args[index][:start], args[index][start:]
        is_secret = before.isprintable() and (start > 0 or index not in started) and is_secret_only(value)
        if (widely or is_secret) and (hidden := hide(value)) != value:
            shown[index] = before + hidden
    # The name of a package or program may look like a token; the value of a variable is not such a name.
    named = {index for index in started if not re.fullmatch(_ASSIGNED, shown[index])}
    return [url(each, hide, widely=widely, tokens_too=index not in named) for index, each in enumerate(shown)]


def startable(words: Sequence[str]) -> set[int]:
    """Return the indexes of the arguments to display that may name what an interpreter or runner starts."""
    # These are all arguments that follow it, up to the first that is surely not the value of an option.
    found: set[int] = set()
    pending = False
    for index, word in enumerate(words):
        name = re.sub(_VERSION_AND_SUFFIX, "", PurePath(word.replace("\\", "/")).name.lower())
        if pending:
            found.add(index - 1)
            before = words[index - 1]
            is_own = (
                not before.startswith("-")
                or "=" in before
                or before in _NAMING
                or re.fullmatch(_ALONE, before) is not None
            )
            pending = word.startswith("-") or word in _SUBCOMMANDS or not is_own
        after = words[index + 1] if index + 1 < len(words) else ""
        takes_code = after in _NAMING or re.fullmatch(r"-[a-z]*[ce]|/[ck]", after.lower())
        # What takes code is an interpreter, whatever runs it.
        runners = _RUNNERS if takes_code or index == 0 or index - 1 in found else _PACKAGE_RUNNERS
        pending = pending or (index == 0 and "${" in word) or name in runners
    return found


def shown(server: Server) -> dict[str, JSON]:
    """Return a server's connection fields for display as JSON, possible secrets masked."""
    data: dict[str, JSON] = {"name": server.name, "transport": server.transport}
    if server.command:
        data |= {
            "command": server.command,
            "args": arguments(server.args, command=server.command),
            "runs": command_line(server),
        }
    others: dict[str, JSON] = {
        "cwd": server.cwd,
        "path": server.path,
        "url": url(server.url),
        "env": masked(server.env),
        "headers": masked_headers(server.headers),
        "insecure": server.insecure,
        "ca_bundle": server.ca_bundle,
        "tls_pins": server.tls_pins if isinstance(server.tls_pins, str) else [*server.tls_pins],
        "client_cert": [*server.client_cert],
        "auth": _masked_auth(server.auth) if server.auth else {},
    }
    return data | {key: value for key, value in others.items() if value}


def _masked_auth(table: JSONObject) -> dict[str, JSON]:
    from pflow_mcp_plugin.config.auth import FIELDS, SECRET  # few servers have such a table

    public = FIELDS.keys() - set(SECRET)
    return {
        key: value if key in public else mask(value if isinstance(value, str) else MASK)
        for key, value in table.items()
    }


def masked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers for display, with all of one masked that has a secret's name: none can be code."""
    others = masked(headers)
    return {
        name: mask(value) if secret_detection.is_secret(name) else others[name]
        for name, value in headers.items()
    }


def masked(values: Mapping[str, str]) -> dict[str, str]:
    """Return a table of variables for display, with what looks like a secret masked."""
    # Values that are only references stay readable, as does what decides the code that is run.
    shown: dict[str, str] = {}
    for name, value in values.items():
        is_code = decides_code(name)
        is_named = secret_detection.is_secret(name) and is_secret_only(value)
        hides_all = is_named or (not is_code and is_random(value))
        shown[name] = mask(value) if hides_all else url(value, tokens_too=not is_code)
    return shown
