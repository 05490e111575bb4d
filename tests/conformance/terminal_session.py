"""A person at a terminal, who uses pflow on a server and signs in whenever pflow says so.

Every command is a process of its own, as it is for people: what a login brings is what the next one finds.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

BROWSER = Path(__file__).resolve().parents[1] / "data" / "page_follower.py"
"""It follows redirects to the loopback listener; the suite's authorization server asks nobody."""
SERVER = "suite"
TOOL = "test-tool"
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
_LOGINS = 3
"""How often a person signs in before they give up; the suite wants a limit, and this one."""
_LOGIN = re.compile(r"[Rr]un: pflow (mcp login [^\n]+)")
_SECONDS = 30


def use_server(url: str, revision: str, scenario: str, context: Mapping[str, Any]) -> int:
    """Add a server, sync it and call its tool; return 0 if all of it worked in the end.

    Args:
        url: The server's URL.
        revision: The protocol revision to speak.
        scenario: The name of the scenario.
        context: What the suite says about the client in that scenario.
    """
    with TemporaryDirectory(prefix="pflow-conformance-") as folder:
        session = TerminalSession(Path(folder))
        auth = _auth(url, scenario, context, Path(folder))
        server = {"type": "http", "url": url, "protocol": revision, "auth": auth}
        commands = (
            ("mcp", "add", SERVER, json.dumps(server)),
            ("mcp", "sync", SERVER),
            ("mcp", SERVER, TOOL),
        )
        return 0 if all(session.succeeds(command) for command in commands) else 1


class TerminalSession:
    """The commands that a person runs, and how often they have signed in.

    Args:
        home: The folder for pflow's config and data.
    """

    def __init__(self, home: Path) -> None:
        self._left = _LOGINS
        browser = shlex.join([sys.executable, str(BROWSER), os.devnull])
        self._environment = {
            **os.environ,
            "PFLOW_HOME": str(home),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            "BROWSER": f"{browser} %s &",
        }

    def succeeds(self, command: Sequence[str]) -> bool:
        """Run a command, and sign in and repeat it while its message says how; whether it succeeded."""
        while True:
            finished = self._run(command)
            wanted = _LOGIN.search(finished.stderr)
            if finished.returncode == 0 or wanted is None or not self._left:
                return finished.returncode == 0
            self._left -= 1
            if self._run(shlex.split(wanted[1])).returncode:
                return False

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        finished = subprocess.run(
            [sys.executable, "-m", "pflow_mcp_plugin", *command],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
        print(f"$ pflow {shlex.join(command)}\n{finished.stdout}{finished.stderr}", file=sys.stderr)
        return finished


def _auth(url: str, scenario: str, context: Mapping[str, Any], home: Path) -> dict[str, str]:
    """Return the `auth` table of the server, with what the suite says about the client."""
    auth = {name: context[name] for name in ("client_id", "client_secret", "issuer") if name in context}
    if scenario == "auth/basic-cimd":
        auth["client_metadata_url"] = CLIENT_METADATA
    if scenario.startswith("auth/client-credentials"):
        auth |= {"flow": "client_credentials", "issuer": _issuer(url)}
    if "private_key_pem" in context:
        file = home / "key.pem"
        file.write_text(context["private_key_pem"], encoding="utf-8")
        auth["private_key"] = str(file)
    return {"type": "oauth", **auth}


def _issuer(url: str) -> str:
    """Return a server's issuer: the config of a machine has to name it, and the suite does not."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    metadata = json.loads(build_opener(ProxyHandler({})).open(place, timeout=_SECONDS).read())
    return str(metadata["authorization_servers"][0])
