"""References become values when a server is started, and never before."""

import json
import os
from base64 import b64encode

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.config.expansion import (
    STARTS_SETTING,
    VariableLookup,
    expand,
    launch_names,
    launch_variables,
    starts_at_once,
)
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.host.cli.command_line import main
from pflow_mcp_plugin.types import Server
from pflow_mcp_plugin.variable_references import VariableReference
from pflow_mcp_plugin.variable_references import references as found_in

names = st.sampled_from(["A", "TOKEN", "HOME", "UNSET"])
plain = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="${}\0"), max_size=8)
references = st.one_of(names.map("${{{}}}".format), st.builds("${{{}:-{}}}".format, names, plain))
pieces = st.lists(st.one_of(plain, references), max_size=4).map("".join)


def stdio(**fields):
    return Server(name="git", command="git-server", **fields)


def http(**fields):
    return Server(name="web", transport="http", **{"url": "https://example.com", **fields})


def test_a_variable_of_env_that_is_unset_or_set_to_nothing_becomes_empty_and_is_listed():
    launch = expand(stdio(env={"A": "${GONE}", "B": "x-${GONE}-${HERE}"}), {"HERE": "here"}.get)
    assert launch.server.env == {"A": "", "B": "x--here"}
    assert launch.unset == ("GONE",)
    launch = expand(stdio(env={"A": "${BLANK}", "B": "${BLANK:-}"}), {"BLANK": ""}.get)
    assert (launch.unset, launch.empty) == ((), ("BLANK",))
    assert launch.blank_notes == ("Set to the empty string: BLANK",)
    assert launch.blank_steps == ("if it needs BLANK: pflow settings set BLANK -",)
    assert expand(stdio(env={"B": "${BLANK:-}"}), {"BLANK": ""}.get).blank_notes == ()


@pytest.mark.parametrize(
    ("server", "place"),
    [
        (Server(name="s", command="${GONE}"), "mcpServers.s.command"),
        (Server(name="s", command="x", args=("a", "--k=${GONE}")), "mcpServers.s.args[1]"),
        (Server(name="s", transport="uds", path="${GONE}"), "mcpServers.s.path"),
        (Server(name="s", transport="http", url="https://${GONE}/x"), "mcpServers.s.url"),
        (http(headers={"X-A": "${GONE}"}), "mcpServers.web.headers.X-A"),
        (http(auth={"type": "bearer", "token": "${GONE}"}), "mcpServers.web.auth.token"),
        (http(auth={"token_env": "GONE"}), "mcpServers.web.auth.token_env"),
    ],
)
def test_an_unset_variable_elsewhere_is_an_error_that_names_server_field_and_variable(server, place):
    with pytest.raises(McpError) as caught:
        expand(server, {}.get)
    assert caught.value.where == Where(server=server.name, phase="config")
    (problem,) = caught.value.problems
    assert (problem.path, problem.severity, problem.kind) == (place, "error", "config")
    assert "GONE" in caught.value.message
    assert f"Server {server.name}" in caught.value.message
    assert "export GONE=" in caught.value.suggestions[0]
    assert "pflow settings set GONE -" in caught.value.suggestions[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"auth": {"type": "bearer", "token": "${T}"}},
        {"auth": {"type": "bearer", "token": "${X:-}"}},
        {"auth": {"token_env": "T"}},
        {"headers": {"Authorization": "Bearer ${T}"}},
    ],
)
def test_an_empty_token_is_never_sent(fields):
    with pytest.raises(McpError, match="empty"):
        expand(http(**fields), {"T": ""}.get)


def test_a_default_stands_for_what_is_unset_or_empty_and_values_are_never_expanded_again():
    server = stdio(args=("${A:-one}", "${B:-two}", "${C:-}"), env={"D": "${A:-three}"})
    launch = expand(server, {"B": ""}.get)
    assert launch.server.args == ("one", "two", "")
    assert launch.server.env == {"D": "three"}
    assert launch.unset == ()
    launch = expand(stdio(args=("$${A}", "${A}", "$A", "$$")), {"A": "${B}", "B": "no"}.get)
    assert launch.server.args == ("${A}", "${B}", "$A", "$$")


def test_the_environment_comes_before_the_settings(monkeypatch):
    class Settings:
        def get(self, key):
            return {"PFLOW_T_ONE": "settings", "PFLOW_T_TWO": "settings"}.get(key)

    monkeypatch.setenv("PFLOW_T_ONE", "environment")
    lookup = VariableLookup(Settings())
    found = [lookup(f"PFLOW_T_{name}") for name in ("ONE", "TWO", "THREE")]
    assert found == ["environment", "settings", None]
    assert VariableLookup()("PFLOW_T_TWO") is None


def test_an_http_servers_env_is_looked_at_before_the_environment_and_what_is_unset_there_named():
    server = http(
        url="https://${HOST}/mcp",
        env={"HOST": "${REGION}.example.com", "TOKEN": "${TOKEN}"},
        auth={"type": "bearer", "token": "${TOKEN}"},
    )
    launch = expand(server, {"REGION": "eu", "HOST": "wrong", "TOKEN": "from-outside"}.get)
    assert launch.server.url == "https://eu.example.com/mcp"
    assert launch.server.auth["token"] == "from-outside"
    with pytest.raises(McpError, match="variable SLACK_TOKEN is not set"):
        expand(http(env={"T": "${SLACK_TOKEN}"}, auth={"type": "bearer", "token": "${T}"}), {}.get)
    launch = expand(http(env={"T": "${SLACK_TOKEN}", "B": "${BLANK}"}), {"BLANK": ""}.get)
    assert (launch.unset, launch.empty) == ((), ())


def test_token_env_becomes_a_bearer_token():
    launch = expand(http(auth={"token_env": "T", "scopes": ["repo"]}), {"T": "tttt"}.get)
    assert launch.server.auth == {"type": "bearer", "token": "tttt", "token_env": "T", "scopes": ["repo"]}
    assert "tttt" in launch.secrets


def test_the_credentials_of_a_machine_are_expanded_and_only_its_secret_is_one():
    client = {"client_id": "${ID}", "client_secret": "${SECRET}", "issuer": "https://${LOGIN}"}
    auth = {"type": "oauth", "flow": "client_credentials", **client}
    values = {"ID": "my-machine", "SECRET": "its-secret", "LOGIN": "login.example.com"}
    launch = expand(http(auth=auth), values.get)
    assert launch.server.auth["issuer"] == "https://login.example.com"
    assert launch.server.auth["client_id"] == "my-machine"
    assert set(launch.secrets) == {"its-secret"}
    assert expand(http(auth={**auth, "client_secret": "written-out"}), values.get).secrets == ("written-out",)
    with pytest.raises(McpError, match="not an http or https address"):
        expand(http(auth={**auth, "issuer": "${LOGIN}"}), values.get)
    with pytest.raises(McpError, match="variable SECRET is not set"):
        expand(http(auth=auth), {**values, "SECRET": None}.get)


def test_secrets_learned_later_are_redacted_and_reported_by_copies_of_a_launch_too():
    reported = []
    launch = attrs.evolve(expand(http(), {}.get), report=reported.extend)
    attrs.evolve(launch, era="modern").learn(["a-new-token", ""])
    assert launch.redactor.text("a-new-token") == "***"
    assert reported == ["a-new-token"]


@pytest.mark.parametrize(
    "made", [{"auth": {"type": "bearer", "token": "${T}"}}, {"headers": {"X-Team": "${T}"}}]
)
def test_what_no_header_may_hold_is_refused_without_showing_it(made):
    for value, wrong in (
        ("\u201csecret\u201d", "not ASCII"),
        ("secret ", "a space at an end"),
        ("secret\n", "line break"),
    ):
        with pytest.raises(McpError, match=wrong) as caught:
            expand(http(**made), {"T": value}.get)
        assert caught.value.kind == "config"
        assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "value"),
    [("${X}/mcp", "file:///etc"), ("http://${X}", "[::1"), ("http://${X}/", "a b")],
)
def test_an_expanded_url_must_still_be_one(url, value):
    with pytest.raises(McpError, match="not an http or https address"):
        expand(http(url=url), {"X": value}.get)


def test_what_a_server_is_reached_by_must_not_become_empty():
    empty = ({"url": "${A:-}"}, {"ca_bundle": "${A:-}"}, {"tls_pins": "${A:-}"})
    for server in (Server(name="s", command="${A:-}"), *(http(**fields) for fields in empty)):
        with pytest.raises(McpError, match="empty once expanded"):
            expand(server, {}.get)
    assert expand(stdio(args=("${A:-}",), cwd="${A:-}"), {}.get).server.args == ("",)


def test_a_password_may_be_empty_and_a_user_name_may_not():
    auth = {"type": "basic", "username": "me", "password": "${P:-}"}
    assert expand(http(auth=auth), {}.get).server.auth["password"] == ""
    with pytest.raises(McpError) as caught:
        expand(http(auth={**auth, "username": "${U:-}"}), {}.get)
    assert [problem.path for problem in caught.value.problems] == ["mcpServers.web.auth.username"]


def test_a_nul_character_is_refused_wherever_it_would_end_a_value():
    with pytest.raises(McpError) as caught:
        expand(stdio(args=("${X}", "y"), cwd="${X}"), {"X": "a\0b"}.get)
    found = [(it.path, "NUL" in it.message) for it in caught.value.problems]
    assert found == [("mcpServers.git.args[0]", True), ("mcpServers.git.cwd", True)]


def test_secrets_are_what_came_from_variables_and_what_looks_like_one():
    server = http(
        url="https://example.com/?k=${API_KEY}&r=${REGION}",
        headers={"Authorization": "Token literal-token", "X-Team": "blue-team", "X-From": "${SOME}"},
        auth={"type": "basic", "username": "user", "password": "pass-word"},
    )
    secrets = expand(server, {"API_KEY": "key-value", "REGION": "europe", "SOME": "some-value"}.get).secrets
    assert {"literal-token", "Token literal-token", "some-value", "key-value", "pass-word"} <= set(secrets)
    assert "dXNlcjpwYXNzLXdvcmQ=" in secrets
    assert not {"blue-team", "europe"} & set(secrets)
    words = {"HOME": "${HOME}", "LOG": "info", "LEVEL": "${LEVEL:-debug}"}
    launch = expand(stdio(env={**words, "GITHUB_TOKEN": "abc", "API_KEY": "1234"}), {"HOME": "/home/me"}.get)
    assert launch.secrets == ("1234",)


@given(texts=st.lists(pieces, max_size=3), env=st.dictionaries(names, pieces, max_size=3), value=plain)
def test_no_reference_survives_expansion(texts, env, value):
    values = {"A": value, "TOKEN": value, "HOME": value}
    server = stdio(args=tuple(texts), env=env)
    if any(reference == VariableReference("UNSET") for text in texts for reference in found_in(text)):
        with pytest.raises(McpError, match="UNSET"):
            expand(server, values.get)
        return
    launch = expand(server, values.get)
    assert "${" not in "".join([*launch.server.args, *launch.server.env.values()])


def test_the_files_of_a_server_over_http_are_expanded_and_those_of_others_are_not():
    pair = ("${DIR}/a.pem", "${DIR}/a.key")
    files = {"ca_bundle": "${DIR}/ca.pem", "client_cert": pair, "tls_pins": "${DIR}/pins"}
    web = Server(name="web", transport="http", url="https://example.com", **files)
    expanded = expand(web, {"DIR": "/etc/tls"}.get).server
    assert (expanded.ca_bundle, expanded.tls_pins) == ("/etc/tls/ca.pem", "/etc/tls/pins")
    assert expanded.client_cert == ("/etc/tls/a.pem", "/etc/tls/a.key")
    with pytest.raises(McpError) as caught:
        expand(web, {}.get)
    assert {problem.path.rpartition(".")[2] for problem in caught.value.problems} == set(files)
    assert expand(Server(name="clock", command="npx", **files), {}.get).server.ca_bundle == files["ca_bundle"]


def _deciding(values, **fields):
    server = Server(name="s", **fields)
    assert expand(server, values.get).variables == launch_variables(server, values.get)
    assert set(launch_variables(server, values.get)) <= launch_names(server)
    return launch_variables(server, values.get)


def test_the_variables_that_decide_what_is_started_are_told_with_their_values():
    deciding = {"RUN": "/bin/a", "SCRIPT": "/x.py", "DIR": "/d"}
    values = {**deciding, "TOKEN": "abc/x.=", "API_KEY": "k", "PWD": "/p"}
    args = ("${SCRIPT}", "--token", "${TOKEN}", "${PWD}", "${MODE:-fast}")
    found = _deciding(values, command="${RUN}", args=args, cwd="${DIR}")
    assert found == {**deciding, "MODE": "fast"}
    env = {"PYTHONPATH": "${DIR}", "API_KEY": "${API_KEY}"}
    assert _deciding(values, command="a", env=env) == {"DIR": "/d"}


def test_a_secret_that_is_code_or_a_place_decides_what_is_started():
    values = {"API_KEY": "x; evil", "TOKEN": "/tmp/evil.py", "HOST_KEY": "evil.example"}
    assert _deciding(values, command="sh", args=("-c", "server --key ${API_KEY}")) == {"API_KEY": "x; evil"}
    assert _deciding(values, command="srv", args=("--token", "${API_KEY}")) == {"API_KEY": "x; evil"}
    assert _deciding(values, command="python", args=("${TOKEN}",)) == {"TOKEN": "/tmp/evil.py"}
    assert _deciding(values, command="${TOKEN}") == {"TOKEN": "/tmp/evil.py"}
    url = "https://${HOST_KEY}/mcp?key=${TOKEN}"
    assert _deciding(values, transport="http", url=url) == {"HOST_KEY": "evil.example"}


def test_a_plain_word_in_the_place_of_a_secret_decides_nothing_whatever_its_variable_is_called():
    values = {"A": "abc", "B": "def", "HOST": "h.example"}
    assert _deciding(values, command="srv", args=("--token", "${A}", "--token=x${A}")) == {}
    url = "https://${HOST}/${B}?key=${A}&region=${B}"
    assert _deciding(values, transport="http", url=url) == {"B": "def", "HOST": "h.example"}
    assert _deciding(values, transport="http", url="https://h/?key=${A}#${B}") == {"B": "def"}
    assert _deciding(values, transport="http", url="https://h?key=${A}") == {}


def test_variables_that_decide_whom_a_server_is_believed_are_named_too():
    server = http(
        url="https://${HOST}",
        headers={"X-A": "${IGNORED}"},
        auth={"type": "oauth", "client_id": "${ID}", "issuer": "${ISSUER}", "client_secret": "${SECRET}"},
        ca_bundle="${CA}",
        client_cert=("${CERT}", "${KEY}"),
        tls_pins="${PINS}",
        env={"CA": "${INNER}", "IGNORED": "${X}"},
    )
    wanted = {"HOST", "ID", "ISSUER", "CA", "INNER", "CERT", "KEY", "PINS"}
    assert launch_names(server) == wanted
    assert launch_names(attrs.evolve(server, tls_pins=("a",))) == wanted - {"PINS"}
    fields = {"transport": "http", "url": "http://127.0.0.1:${PORT}/mcp", "env": {"PORT": "${NOW}"}}
    assert _deciding({"NOW": "9"}, **fields) == {"PORT": "9"}
    script = Server(name="s", command="${RUN}", env={"RUN": "${X}", "PYTHONPATH": "${LIB}", "LOG": "${Y}"})
    assert launch_names(script) == {"RUN", "LIB"}


KEY_LINES = tuple(letter * 64 for letter in "ABC")
KEY = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(KEY_LINES) + "\n-----END PRIVATE KEY-----\n"
ACCOUNT = {"type": "service_account", "private_key": KEY, "private_key_id": "0123456789abcdef0123456789"}


@pytest.mark.parametrize(
    ("fields", "values", "secrets"),
    [
        ({"env": {"API_KEY": "${X:-the-default}"}}, {}, ["the-default"]),
        ({"env": {"API_KEY": "literal-${X}"}}, {"X": "from-x"}, ["literal-from-x", "literal-"]),
        ({"env": {"AUTH": "Bearer begin${X}"}}, {"X": "-end"}, ["begin-end"]),
        ({"args": ["--h", '{"X-Key": "in-json", "n": [{"password": "deep"}]}']}, {}, ["in-json", "deep"]),
        ({"env": {"CREDENTIALS": json.dumps(ACCOUNT)}}, {}, [*KEY_LINES, ACCOUNT["private_key_id"], KEY]),
        ({"env": {"ACCOUNT_KEY": b64encode(json.dumps(ACCOUNT).encode()).decode()}}, {}, [*KEY_LINES]),
        ({"env": {"DB": "Server=h;User Id=me;Password=pass word!;Timeout=5"}}, {}, ["pass word!"]),
        ({"args": ["AccountName=me;AccountKey=a1b2/c3d4==;X=1"]}, {}, ["a1b2/c3d4=="]),
        ({"env": {"PG": "host=h user=me password=in-libpq dbname=x"}}, {}, ["in-libpq"]),
        ({"env": {"DB": "postgres://me:p%40ssword@h/d"}}, {}, ["p%40ssword", "p@ssword"]),
        ({"env": {"DB": "Driver={SQL};UID=me;PWD={in-odbc}"}}, {}, ["in-odbc"]),
        ({"env": {"DB": "me:in-go-dsn@tcp(h:3306)/d"}}, {}, ["in-go-dsn"]),
        ({"args": ["jdbc:oracle:thin:me/in-oracle@//h:1521/d"]}, {}, ["in-oracle"]),
        ({"env": {"REDIS": "redis://t0ken0without0user@h:1"}}, {}, ["t0ken0without0user"]),
        ({"env": {"DB": "${D}"}}, {"D": b64encode(b"postgres://me:encoded@h/d").decode()}, ["encoded"]),
        ({"env": {"AUTH": "Basic " + b64encode(b"me:in-basic").decode()}}, {}, ["in-basic"]),
        ({"args": ["-c", "exec server --password in-a-line --port 1"]}, {}, ["in-a-line"]),
        ({"env": {"CONFIG": "<add><password>in-xml</password></add>"}}, {}, ["in-xml"]),
        ({"env": {"X": '{"headers": [{"name": "X-Key", "value": "in-a-header"}]}'}}, {}, ["in-a-header"]),
        ({"args": ["--token", "${X}-beside-it"]}, {"X": "x"}, ["beside-it"]),
        ({"args": ["https://h/?key=beside-it${X}"]}, {"X": "x"}, ["beside-it"]),
    ],
)
def test_row_57_secrets_inside_other_values_are_told(fields, values, secrets):
    server = Server(name="s", command="run", **{**fields, "args": tuple(fields.get("args", ()))})
    assert set(secrets) <= set(expand(server, values.get).secrets)


def test_row_57_user_and_password_of_a_proxy_are_secrets(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy-user:proxy%21pass@proxy:3128")
    monkeypatch.setenv("ALL_PROXY", "all-user:all-pass@proxy:3128")
    monkeypatch.setenv("NO_PROXY", "some-host@x")
    secrets = set(expand(Server(name="s", command="run"), {}.get).secrets)
    assert secrets == {"proxy-user", "proxy%21pass", "proxy!pass", "all-user", "all-pass"}


def test_what_is_no_secret_inside_other_values_is_not_told():
    env = {
        "CONFIG": '{"region": "eu-central-1", "auth": "none", "max_tokens": 4096, "key_file": "/srv/k"}',
        "DB": "Server=database.example.com;Authentication=basic;Timeout=500",
        "AUTH_HOME": "${HOME}",
        "PLACES": "https://git-user@example.com npm:pkg@1.2 image:latest@sha256:ab scope/name@1.0",
        "LINE": "run --key-file /srv/k --max-tokens 4096 --no-auth -x > password.txt",
        "LABELS": '[{"name": "region", "value": "eu-central-1"}]',
    }
    assert expand(Server(name="s", command="run", env=env), {"HOME": "/home/someone"}.get).secrets == ()


@pytest.mark.slow
def test_secrets_are_looked_for_in_any_text_in_bounded_time():
    pieces = ('{"key":' * 20_000, "key=" * 80_000, "key=x;" * 40_000)
    for text in (*pieces, *(character * 300_000 for character in "=[a")):
        for value in (text, f'"{text}"'):
            assert len(expand(Server(name="s", command="run", env={"X": value}), {}.get).secrets) < 1000


def test_as_many_servers_are_started_at_once_as_there_are_cores_for_or_as_the_user_says():
    assert starts_at_once(lambda name: None) == 4 * (os.cpu_count() or 1)
    assert starts_at_once({STARTS_SETTING: "3"}.get) == 3


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5"])
def test_anything_else_is_refused_by_its_name(given, monkeypatch):
    for step in ("Run: pflow settings set PFLOW_MCP_STARTS 8", "Unset the environment variable, "):
        with pytest.raises(PflowError, match=STARTS_SETTING) as caught:
            starts_at_once({STARTS_SETTING: given}.get)
        assert caught.value.suggestions[0].startswith(step)
        monkeypatch.setenv(STARTS_SETTING, given)


def test_the_check_of_the_config_finds_a_wrong_number(pflow_home, monkeypatch, capsys):
    monkeypatch.setenv(STARTS_SETTING, "0")
    assert main(["config", "check"]) == 2
    assert f"{STARTS_SETTING} must be" in capsys.readouterr().err
