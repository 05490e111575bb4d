from hashlib import sha256

import attrs
import pytest

from pflow_mcp_plugin.trust.launch_identity import (
    completed,
    difference,
    is_complete,
    is_launch_of,
    launch_identity,
    same,
    shown,
)
from pflow_mcp_plugin.types import Server

STDIO = Server(name="x", command="npx", args=("-y", "some-server@1.2.3"))
HTTP = Server(name="x", transport="http", url="https://ann:secret-1@example.com/mcp?api_key=secret-2&page=1")


@pytest.mark.parametrize(
    "change",
    [
        {"command": "uvx"},
        {"args": ("-y", "some-server@1.2.4")},
        {"cwd": "/elsewhere"},
        {"transport": "uds", "path": "/run/x.sock"},
    ],
)
def test_command_arguments_version_and_place_make_a_launch(change):
    assert launch_identity(attrs.evolve(STDIO, **change)) != launch_identity(STDIO)


def test_names_variables_limits_and_trust_do_not():
    others = {"env": {"TOKEN": "x"}, "call_timeout": 1.0, "trust_readonly": True, "rename": {"a": "b"}}
    assert launch_identity(attrs.evolve(STDIO, name="y", preset="x", **others)) == launch_identity(STDIO)


def test_a_url_counts_without_its_user_and_headers():
    other = attrs.evolve(HTTP, url=HTTP.url.replace("secret-1", "rotated"), headers={"Authorization": "x"})
    assert launch_identity(other) == launch_identity(HTTP)
    assert launch_identity(attrs.evolve(HTTP, url="https://example.org/mcp")) != launch_identity(HTTP)
    moved = attrs.evolve(HTTP, url=HTTP.url.replace("secret-2", "secret-3"))
    assert launch_identity(moved) != launch_identity(HTTP)


def test_a_secret_is_kept_as_its_hash_and_a_reference_as_it_is():
    args = (
        "--token=tops3cret",
        "some-server",
        "--password",
        "hunter2",
        "--key",
        "${KEY}",
        "--pat=${PAT:-tops3cret}",
    )
    launch = launch_identity(attrs.evolve(STDIO, args=args))
    kept = str(launch) + str(launch_identity(HTTP))
    for secret in ("tops3cret", "hunter2", "secret-1", "secret-2"):
        assert secret not in kept
    assert "${KEY}" in launch["args"]
    assert launch != launch_identity(attrs.evolve(STDIO, args=("--token=other", *args[1:])))


def test_a_launch_is_shown_in_full_in_one_line_without_secrets():
    args = ("--token=tops3cret", "a b", "\x1b[2J\u202e")
    line = shown(launch_identity(attrs.evolve(STDIO, args=args, cwd="/tmp/x")))
    assert line == "npx --token=**** 'a b' '\\u001b[2J\\u202e' (in /tmp/x)"
    assert shown(launch_identity(HTTP)) == "https://example.com/mcp?api_key=****&page=1"
    started = Server(name="x", transport="uds", path="/run/x.sock", command="serve")
    assert shown(launch_identity(started)) == "/run/x.sock started by serve"


def test_two_launches_are_shown_in_words_that_differ():
    one, other = (attrs.evolve(STDIO, args=(f"--token={secret}",)) for secret in ("first", "second"))
    before, after = difference(launch_identity(one), launch_identity(other))
    assert before != after
    assert before.startswith("npx --token=**** (")
    one, other = (attrs.evolve(HTTP, transport=kind) for kind in ("http", "sse"))
    assert difference(launch_identity(one), launch_identity(other))[1].endswith("(sse)")


def test_variables_of_env_that_decide_what_code_runs_make_a_launch():
    plain = attrs.evolve(STDIO, env={"REGION": "eu", "API_KEY": "x"})
    assert same(launch_identity(plain), launch_identity(STDIO))
    for name in ("PYTHONPATH", "LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "npm_config_registry"):
        other = attrs.evolve(STDIO, env={name: "/tmp/evil"})
        assert not same(launch_identity(other), launch_identity(STDIO))
        assert not is_launch_of(launch_identity(STDIO), other)
        assert f"{name}=/tmp/evil" in shown(launch_identity(other))


def test_an_identity_of_an_older_version_is_the_same_launch_and_is_completed_once():
    server = attrs.evolve(
        STDIO, args=("${SCRIPT}", "--header", "Authorization: a b;c"), env={"PYTHONPATH": "/x"}
    )
    now = launch_identity(server, {"SCRIPT": "/good.py"})
    older = {"transport": "stdio", "command": "npx", "args": [*now["args"]]}
    older["args"][2] = "Authorization: secret:" + sha256(b"a b;c").hexdigest()
    assert same(older, now)
    assert is_launch_of(older, server, {"SCRIPT": "/evil.py"})
    assert not is_complete(older)
    known = completed(older, (None, now, launch_identity(server, {"SCRIPT": "/evil.py"})))
    assert is_complete(known)
    assert not is_launch_of(known, server, {"SCRIPT": "/evil.py"})
    assert not same(
        older, launch_identity(attrs.evolve(server, args=("${SCRIPT}", "--header", "Authorization: x")))
    )
    assert completed(older, (launch_identity(attrs.evolve(server, command="other"), {}),)) == older


def test_the_values_of_variables_are_kept_without_secrets():
    server = attrs.evolve(STDIO, args=("${A}", "${B}", "${C}"))
    launch = launch_identity(
        server, {"A": "postgres://u:pa$$w0rd@host/db", "B": "s3cr3t1234567", "C": "/srv/x.py"}
    )
    assert "pa$$w0rd" not in str(launch)
    assert "s3cr3t1234567" not in str(launch)
    line = shown(launch)
    assert line.endswith("where A=postgres://****@host/db, B=****, C=/srv/x.py")
