"""No secret of a sign-in is found anywhere but in their store, however it was made and whatever failed.

The real program signs in at a real authorization server, which tells what it issued and was sent: access and
refresh tokens, codes, verifiers, device codes, client secrets and assertions. They are looked for in what was
printed, on a terminal and off it, in all files, and in the command lines of whatever was started.
"""

import json
import os
import re
import shlex
import sys
from urllib.parse import quote

import attrs
import page_follower
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import ECKey
from planted_secrets import remains
from prepared_starts import PROGRAM
from typing_terminal import terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.usefixtures("no_leftovers")]

SECRET = "planted-client-Zq7xK2mP9wL4vB8nT3cR"
MACHINE = {"grant_types": ["client_credentials"], "scope": "notes:read"}

# Notes the command line of whatever a Python program starts.
AUDIT = """
import os, sys
def _note(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.spawn"):
        with open(os.environ["NOTED_COMMANDS"], "a") as file:
            file.write(f"{event} {arguments[:2]!r}\\n")
sys.addaudithook(_note)
"""


@attrs.define
class Desk:
    """A person, or a machine, at the program; everything that it shows is kept."""

    pflow: object
    home: object
    folder: object
    """A folder outside the home."""
    issuer: object
    server: object
    printed: list = attrs.field(factory=list)
    planted: list = attrs.field(factory=list)
    """Secrets that the authorization server does not know of."""

    def run(self, *arguments, **options):
        """Run the program, and keep what it prints."""
        finished = self.pflow(*arguments, env={"NOTES_SECRET": SECRET}, **options)
        self.printed += [finished.stdout, finished.stderr]
        return finished

    def add(self, **auth):
        """Add the protected server."""
        table = {"type": "http", "url": self.server.url, "ca_bundle": str(self.server.ca_file)}
        if auth:
            table["auth"] = {"type": "oauth", **auth}
        assert self.run("mcp", "add", json.dumps({"notes": table})).exit_code == 0

    def add_machine(self, **auth):
        """Add it with the credentials of a machine."""
        machine = {"flow": "client_credentials", "client_id": "me", "scopes": ["notes:read"]}
        self.add(issuer=self.issuer.issuer, **machine, **auth)

    @property
    def commands(self):
        """The command lines that were noted."""
        file = self.folder / "commands"
        return file.read_text() if file.exists() else ""

    @property
    def workflow(self):
        """A workflow of one call."""
        file = self.folder / "read.json"
        file.write_text(json.dumps({"nodes": [{"id": "read", "type": "mcp-notes-read-note"}]}))
        return file

    @property
    def sign_ins(self):
        """The store of sign-ins."""
        return self.home / "data" / "oauth"

    def left(self):
        """Return each place with a part of a secret, and the part."""
        secrets = [*self.issuer.secrets(), *self.planted]
        assert secrets
        found = [
            path for path in self.home.rglob("*") if path.is_file() and self.sign_ins not in path.parents
        ]
        found += [path for path in self.folder.iterdir() if path.is_file() and path.suffix != ".pem"]
        texts = [*self.printed, *(path.read_bytes().decode("latin-1") for path in found)]
        return [f"{secret}: {place}" for secret in secrets for place in remains(secret, texts)]


@pytest.fixture
def desk(pflow, pflow_home, tmp_path, authorization_server, protected_server, monkeypatch):
    """A desk at which every command that is started is noted."""
    folder, hooks = tmp_path / "desk", tmp_path / "hooks"
    folder.mkdir()
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(AUDIT, encoding="utf-8")
    noted = folder / "commands"
    follower = [sys.executable, page_follower.__file__, str(noted), str(protected_server.ca_file)]
    monkeypatch.setenv("PYTHONPATH", str(hooks), prepend=os.pathsep)
    monkeypatch.setenv("NOTED_COMMANDS", str(noted))
    monkeypatch.setenv("BROWSER", f"{shlex.join(follower)} %s")
    return Desk(pflow, pflow_home, folder, authorization_server, protected_server)


def by_secret(desk):
    desk.issuer.add_client("me", SECRET, **MACHINE)
    desk.planted.append(SECRET)
    desk.add_machine(client_secret="${NOTES_SECRET}")


def by_private_key(desk):
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = desk.folder / "key.pem"
    file.write_bytes(pem)
    public = ECKey.import_key(pem).as_dict(private=False)
    jwks = {"keys": [{**public, "kid": "1"}]}
    desk.issuer.add_client("me", token_endpoint_auth_method="private_key_jwt", jwks=jwks, **MACHINE)
    desk.planted += pem.decode().splitlines()[1:-1]
    desk.add_machine(private_key=str(file))


def by_browser(desk):
    desk.issuer.switch(registered_method="client_secret_post")
    desk.add()
    finished = desk.run("mcp", "login", "notes")
    assert finished.exit_code == 0, finished.stderr
    assert "subprocess.Popen" in desk.commands
    assert desk.commands.count("page_follower.py', ") == 1


def by_pasted_redirect(desk):
    """On a terminal, which must not show what is pasted."""
    desk.add()
    command = [*PROGRAM, "mcp", "login", "notes", "--no-browser"]
    env = {**os.environ, "PS1": "", "COLUMNS": "2000"}
    with terminal(["bash", "--norc", "--noediting"], env, str(desk.folder)) as shell:
        shown = shell.type(f"{shlex.join(command)}; echo EN''DED $?\n", "paste it here:\r\n")
        with desk.issuer.client() as client:
            redirect = client.get(re.search(r"https://\S+/authorize\S+", shown)[0]).headers["location"]
        said = shell.type(f"{redirect}\n", r"ENDED \d+")
        desk.printed.append(shell.shown)
    assert said.endswith("ENDED 0"), said


def by_device(desk):
    desk.add(flow="device_code")
    finished = desk.run("mcp", "login", "notes")
    assert finished.exit_code == 0, finished.stderr
    assert "page_follower.py" not in desk.commands


FLOWS = {
    "a secret": by_secret,
    "a private key": by_private_key,
    "a browser": by_browser,
    "a pasted redirect": by_pasted_redirect,
    "a device": by_device,
}
STORED = ("a secret", "a browser")
"""Those that keep and send different things; the others do as one of these does."""


@pytest.fixture(params=FLOWS)
def signed_in(request, desk):
    """A desk that is signed in, in one of the ways, and whose server is synced."""
    FLOWS[request.param](desk)
    synced = desk.run("mcp", "sync", "notes")
    assert synced.exit_code == 0, synced.stderr
    return desk


def test_row_37_no_secret_is_left_of_sign_ins_that_work(signed_in):
    file = signed_in.workflow
    for line in (f"run {file}", f"run {file} --json", "mcp test notes --json", "mcp auth --json"):
        finished = signed_in.run(*line.split())
        assert finished.exit_code == 0, finished.stderr
    signed_in.issuer.expire_access_tokens()
    assert signed_in.run("run", signed_in.workflow, "--json").exit_code == 0
    assert len(signed_in.issuer.requests("token")) > 1
    assert signed_in.left() == []


def known(desk):
    """Return what the program knows and a server may repeat: the stored tokens, and the client's secret."""
    (file,) = desk.sign_ins.glob("*.json")
    return " ".join([*json.loads(file.read_text())["secrets"].values(), SECRET])


def failures(text):
    """Yield what the token endpoint may do, with this text."""
    place = f"https://x.example/?{quote(text)}"
    yield {"status": 401, "body": {"error": "invalid_client", "error_description": text}}
    yield {"status": 400, "body": {"error": "invalid_grant", "error_description": text}}
    yield {"status": 400, "body": {"error": text, "error_uri": place}}
    yield {"status": 503, "body": text}
    yield {"broken": True}
    yield {"status": 307, "headers": {"location": place}}
    yield {"status": 200, "body": text}  # no JSON
    yield {"status": 200, "body": {"access_token": text.split()[0], "token_type": "mac"}}


@pytest.mark.parametrize("signed_in", STORED, indirect=True)
def test_row_37_no_secret_is_left_where_no_token_can_be_had(signed_in):
    desk = signed_in
    (file,) = desk.sign_ins.glob("*.json")
    before, text = file.read_text(), known(desk)
    desk.issuer.expire_access_tokens()
    for number, failure in enumerate(failures(text)):
        desk.issuer.fail("token", **failure)
        command = ("mcp", "login", "notes") if number % 3 == 2 else ("run", desk.workflow, "--json")
        assert desk.run(*command).exit_code
        desk.issuer.mend()
        file.write_text(before)
    desk.issuer.fail("metadata", status=500, body=text)
    desk.issuer.revoke_tokens()
    for arguments in (("mcp", "test", "notes"), ("mcp", "sync", "--json"), ("run", desk.workflow)):
        desk.run(*arguments)
    assert desk.left() == []


@pytest.mark.parametrize("signed_in", STORED, indirect=True)
def test_row_37_no_secret_is_left_where_the_server_repeats_it(signed_in):
    desk, text = signed_in, known(signed_in)
    challenge = f'Bearer error="insufficient_scope", scope="{text.split()[0]}", error_description="{text}"'
    headers = {"www-authenticate": challenge, "location": f"https://x.example/?{quote(text)}"}
    for status in (403, 500, 302, 200):
        desk.server.fail("mcp", status=status, body=text, headers=headers, when={"method": "tools/call"})
        assert desk.run("run", desk.workflow, "--json").exit_code != 0
        desk.server.mend()
    desk.server.fail("mcp", status=500, body=text)
    assert desk.run("mcp", "sync", "notes").exit_code == 3
    assert desk.left() == []


@pytest.mark.parametrize("signed_in", ["a browser"], indirect=True)
def test_row_37_no_secret_is_left_where_a_sign_in_is_corrupt(signed_in):
    desk = signed_in
    (file,) = desk.sign_ins.glob("*.json")
    before = file.read_text()
    for spoilt in (before[:-9], before.replace('"resource"', '"x"'), before.replace(": 1", ": 9", 1)):
        file.write_text(spoilt)
        desk.run("run", desk.workflow, "--json")
    desk.run("mcp", "test", "notes")
    assert desk.left() == []
