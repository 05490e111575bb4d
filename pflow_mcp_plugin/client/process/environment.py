"""The environment variables of a server's process: few of the user's, and its own."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pflow_mcp_plugin.processes.reaper_process import MARKER

_NEEDED = "PATH HOME USER LOGNAME SHELL TERM TMPDIR TEMP TMP TZ LANG LANGUAGE"
_XDG = "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR"
_PROXIES = "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY"
_CERTIFICATES = "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS PIP_CERT"
_WINDOWS = (
    "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES "
    "USERPROFILE USERNAME HOMEDRIVE HOMEPATH"
)
_NAMES = frozenset(f"{_NEEDED} {_XDG} {_PROXIES} {_CERTIFICATES} {_WINDOWS}".split())
_PREFIXES = ("LC_",)
_ALWAYS = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}


def child_environment(own: Mapping[str, str], marker: str) -> dict[str, str]:
    """Return all environment variables for a server's process.

    They are PATH, HOME and the few variables a program needs to start; proxy, CA and locale
    variables; UTF-8 for Python; the server's own `env`, which takes precedence over these; and the
    marker of this run.
    """
    inherited = {name: value for name, value in os.environ.items() if _is_inherited(name, value)}
    # The marker comes last: a config that sets the same name must not hide the process from the reaper.
    return {**inherited, **_ALWAYS, **own, MARKER: marker}


def _is_inherited(name: str, value: str) -> bool:
    if value.startswith("()"):  # an exported shell function, which is code
        return False
    upper = name.upper()  # Windows ignores case, and proxy variables are often in lower case
    return upper in _NAMES or upper.startswith(_PREFIXES)
