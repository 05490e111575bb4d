"""A web server that a test starts as a program of its own on loopback, controls and reads the log of.

The program's side is `recorded_app.py`.
"""

import json
import os
import secrets
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import attrs
import httpx2
from certificates import Authority

_END_SECONDS = 10
_ANSWER_SECONDS = 30


@attrs.frozen(kw_only=True)
class Recorded:
    """A request that the program got, secrets and all.

    Attributes:
        endpoint: What was asked, such as `token`; empty where the program has nothing.
        method: The HTTP method.
        path: The path.
        query: The fields of the query.
        form: The fields of a form.
        json: The JSON sent, or None.
        headers: The headers by their name in lower case.
        status: The status that was answered; None while nothing was.
    """

    endpoint: str
    method: str
    path: str
    query: dict[str, str]
    form: dict[str, str]
    json: Any
    headers: dict[str, str]
    status: int | None


class LoopbackProgram:
    """A program that runs; `start` makes one.

    Args:
        process: The program.
        origin: Where it listens, such as `https://127.0.0.1:4711`.
        ca_file: The CA that its certificate is of.
    """

    def __init__(self, process: subprocess.Popen[str], origin: str, ca_file: Path) -> None:
        self.process = process
        self.origin = origin
        self.ca_file = ca_file
        self.tls = ssl.create_default_context(cafile=str(ca_file))

    @classmethod
    @contextmanager
    def start(cls, script: Path, ca_file: Path, settings: Mapping[str, Any]) -> Iterator[Self]:
        """Run a program for the `with` block.

        It reads its settings as one line of JSON from stdin, so that no secret of a test is in its
        command line, says where it listens, and ends itself once stdin is closed. Nothing of it outlives
        the test, however that ends.
        """
        # What a test marks its own programs with would make this one look as if it were left behind.
        env = {name: value for name, value in os.environ.items() if not name.startswith("PFLOW_")}
        process = subprocess.Popen(
            [sys.executable, str(script)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            try:
                process.stdin.write(json.dumps(settings) + "\n")
                process.stdin.flush()
                origin = process.stdout.readline().strip()
                assert origin, f"{script.name} did not start: see its stderr"
                yield cls(process, origin, ca_file)
            finally:
                process.kill()
                process.wait(_END_SECONDS)

    def client(self, **options: Any) -> httpx2.Client:
        """Return an HTTP client that knows the CA; it follows no redirects."""
        return httpx2.Client(
            base_url=self.origin, verify=self.tls, trust_env=False, timeout=_ANSWER_SECONDS, **options
        )

    def control(self, action: str, **arguments: Any) -> Any:
        """Have the program do something; it is not recorded."""
        with self.client() as client:
            answer = client.post(f"/-/{action}", json=arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def requests(self, endpoint: str | None = None, **fields: str) -> list[Recorded]:
        """Return the requests so far, in order: those to an endpoint, and with these fields in the form."""
        entries = [Recorded(**entry) for entry in self.control("requests")]
        return [
            entry
            for entry in entries
            if endpoint in (None, entry.endpoint) and fields.items() <= entry.form.items()
        ]

    def fail(
        self,
        endpoint: str,
        *,
        times: int | None = None,
        status: int = 503,
        body: Any = "",
        headers: Mapping[str, str] | None = None,
        when: Mapping[str, Any] | None = None,
        broken: bool = False,
    ) -> None:
        """Answer an endpoint with a fault from now on; the oldest that fits is played.

        Args:
            endpoint: Which, by the name that the log has for it.
            times: How often; None for until `mend` or `reset`.
            status: The status to answer with.
            body: The body: text, or an object that is sent as JSON.
            headers: Its headers, such as `Retry-After`, or `Location` with a status of 302.
            when: Only requests whose form, or JSON, has these fields, such as `{"method": "tools/call"}`.
            broken: Begin to answer, and hang up.
        """
        self.control(
            "fail",
            endpoint=endpoint,
            times=times,
            status=status,
            body=body,
            headers=dict(headers or {}),
            when=dict(when or {}),
            broken=broken,
        )

    def mend(self) -> None:
        """Play no faults any more."""
        self.control("mend")

    def switch(self, **switches: Any) -> None:
        """Change its switches."""
        self.control("switch", **switches)

    def reset(self) -> None:
        """Bring it back to its state at the start, with an empty log."""
        self.control("reset")


def loopback_certificate(authority: Authority) -> str:
    """Return a new file with a certificate of a CA for this machine, and its key."""
    file_name = f"loopback-{secrets.token_hex(4)}.pem"
    return str(authority.server_file("127.0.0.1", "localhost", file_name=file_name))
