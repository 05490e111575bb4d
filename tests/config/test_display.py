"""A server as it may be printed, and what is recognised as a token. No token here was ever valid."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.config.expansion import expand
from pflow_mcp_plugin.secret_detection import tokens
from pflow_mcp_plugin.types import Server

secrets = st.text(alphabet="0123456789", min_size=12, max_size=20).map("s3cr3t-{}".format)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/mcp?team=blue", "https://example.com/mcp?team=blue"),
        ("https://user:pass@example.com/mcp", "https://****@example.com/mcp"),
        ("https://${USER}:${PASS}@example.com", "https://${USER}:${PASS}@example.com"),
        ("https://example.com/?a=b&apiKey=x#c", "https://example.com/?a=b&apiKey=****#c"),
        ("https://example.com/?access_token=${T}", "https://example.com/?access_token=${T}"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_secrets(url, shown):
    assert display.url(url) == shown


def test_a_command_is_shown_as_a_shell_takes_it_and_as_what_a_server_is_reached_by():
    server = Server(name="a", command="my server", args=("a b", "$c"))
    assert display.command_line(server) == "'my server' 'a b' '$c'"
    assert display.target(Server(name="a", transport="uds", path="/run/a", command="b")) == "/run/a"
    assert display.target(Server(name="a", command="b", args=("c",))) == "b c"


def test_everything_that_is_set_about_a_connection_is_shown_and_nothing_else():
    same = {"name": "a", "transport": "http", "url": "https://e.com", "headers": {"A": "b"}}
    same |= {"insecure": True, "ca_bundle": "ca"}
    public = {"type": "oauth", "client_id": "me", "token_env": "T", "scopes": ["repo"]}
    auth = {**public, "client_secret": "planted-1", "other": {"deep": "hidden"}}
    files = {"tls_pins": ("x", "y"), "client_cert": ("c", "k")}
    assert display.shown(Server(**same, **files, auth=auth, call_timeout=3)) == {
        **same,
        **{name: [*value] for name, value in files.items()},
        "auth": {**public, "client_secret": "****", "other": "****"},
    }
    same = {"name": "a", "command": "b", "cwd": "/c", "env": {"D": "e"}, "tls_pins": "f"}
    shown = {"transport": "stdio", "args": ["--key", "****"], "runs": "b --key '****'"}
    assert display.shown(Server(**same, args=("--key", "plant1"))) == {**same, **shown}


@given(secret=secrets, around=st.sampled_from(["{}", "Bearer {}", "${{A}}{}", "${{A:-{}}}"]))
def test_no_secret_is_shown(secret, around):
    value = around.format(secret)
    server = Server(
        name="a",
        transport="http",
        url=f"https://{secret}@example.com/?token={secret}",
        env={"A": value},
        headers={"B": value},
        auth={"type": "basic", "username": value, "password": value, "unknown": value},
    )
    assert secret not in json.dumps(display.shown(server))
    assert secret not in display.target(server)


def test_the_default_of_a_reference_to_a_secret_is_masked_wherever_it_stands():
    server = Server(name="s", command="c", args=("${API_KEY:-abc}", "x=${API_KEY:-abc}-y", "${REGION:-eu}"))
    assert display.arguments(server.args) == ["${API_KEY:-****}", "x=${API_KEY:-****}-y", "${REGION:-eu}"]
    assert "abc" not in display.command_line(server)
    assert display.url("https://host/${TOKEN:-abc}/x") == "https://host/${TOKEN:-****}/x"


CODE = [
    ("bash", "-c", "API_KEY=x; touch /tmp/PWN; exec python evil.py"),
    ("python3", "-c", "token=__import__('os').system('evil')"),
    ("node", "--token", "$(evil)"),
    ("sh", "-c", "curl http://h/?token=$({touch,/tmp/PWN})"),
    ("sh", "-c", "${API_KEY:-$(evil)}"),
    ("sh", "-c", "-----BEGIN PRIVATE KEY-----\nevil\n-----END PRIVATE KEY-----"),
    ("env", "GIT_ASKPASS=/tmp/evil", "git"),
    ("git", "-c", "credential.helper=evil", "fetch"),
    ("npx", "-y", "xapp-evil-package"),
    ("/usr/bin/node", "/usr/lib/npm/bin/npx-cli.js", "--token", "evil"),
    ("sudo", "docker", "run", "--token", "evil"),
    ("npx", "--cache", "y", "--token", "evil"),
    ("run", "--key=" + "x" * 5000 + "`evil`"),
    ("run", "--token=$'\\x65evil'"),
    ("run", "https://github.com:x@evil.example/mcp"),
    ("bash", "-c", "X=1; . ./xapp-evil1234567890"),
    ("sh", "-c", "PATH=. ghp_evilaaaaaaaaaaaaaaaaaaaaaa"),
    ("run", "--exec", "TAAAAAAA/BAAAAAAAA/evilaaaaaaaaaaaaaaaaaa"),
    (
        "gosu",
        "me",
        "sh",
        "-c",
        f"-----BEGIN PRIVATE KEY-----\n{'A' * 64}\n/tmp/evil\n-----END PRIVATE KEY-----",
    ),
]


@pytest.mark.parametrize("words", CODE, ids=repr)
def test_row_54_what_may_be_code_is_shown_though_it_stands_where_a_secret_does(words):
    server = Server(name="a", command=words[0], args=words[1:])
    for shown in (display.command_line(server), str(display.shown(server)["runs"])):
        assert "evil" in shown or "touch" in shown
        assert shown.isprintable()
    assert display.shown(server)["args"] == [*server.args]


def test_row_54_code_in_urls_variables_and_headers_is_shown():
    url = "https://h/mcp?token=$({touch,/tmp/PWN})&key=a;b#token=x"
    assert display.url(url) == url
    assert display.url("https://github.com:x@evil.example/mcp") == "https://github.com:x@evil.example/mcp"
    assert display.url("https://github.com@evil.example/mcp") == "https://github.com@evil.example/mcp"
    option = "-r xapp-evil-package-1234"
    code = {"PYTHONPATH": "evil", "GIT_ASKPASS": "evil", "API_KEY": "x; evil", "TOKEN": "() { evil"}
    env = {"NODE_OPTIONS": option, **code}
    assert display.masked(env) == env
    assert display.masked({"NOTE": option}) == {"NOTE": "-r ****"}


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("Cookie", "session=abcdef0123456789abcdef", "****"),
        ("Authorization", "Bearer eyJhbGci.eyJzdWIi.sig_nature1", "****"),
        ("X-Api-Key", "p.ss w0rd/abc1!", "****"),
        ("Authorization", "Bearer ${TOKEN}", "Bearer ${TOKEN}"),
    ],
)
def test_a_header_with_the_name_of_a_secret_is_masked_whatever_it_contains(name, value, shown):
    assert display.masked_headers({name: value}) == {name: shown}


def test_secrets_beside_what_is_started_are_masked():
    for words in (
        ("npx", "-y", "some-server@1.2.3", "--token", "hunter2"),
        ("uvx", "--from", "some-server", "serve", "--api-key", "hunter2"),
        ("docker", "run", "-i", "--rm", "-e", "API_KEY=hunter2", "image"),
        ("python", "-m", "server", "--password", "hunter2"),
        ("npx", "mcp-remote", "https://h/", "--header", "Authorization: Bearer hunter2"),
        ("env", "API_KEY=hunter2", "server"),
    ):
        assert "hunter2" not in display.command_line(Server(name="a", command=words[0], args=words[1:]))


@given(text=st.text(alphabet="aB1=~-+${}: ;", max_size=60))
def test_whether_a_value_is_a_secret_only_is_found_at_once(text):
    assert not display.is_secret_only(text * 50 + ";")


DECIDE = """
    PATH PYTHONPATH LD_PRELOAD NODE_OPTIONS BASH_ENV PERL5OPT RUBYOPT JAVA_TOOL_OPTIONS CLASSPATH
    npm_config_registry UV_INDEX_URL PIP_INDEX_URL GIT_SSH_COMMAND GIT_ASKPASS DOTNET_STARTUP_HOOKS
    DOCKER_HOST HOME BASH_FUNC_ls%% PROMPT_COMMAND PS4 LUA_INIT PHPRC SHELL GCONV_PATH
    XDG_CONFIG_HOME PEX_PATH TSX_TSCONFIG_PATH TS_NODE_PROJECT SSLKEYLOGFILE
"""
DO_NOT = "GITHUB_TOKEN NODE_ENV PORT PYTHONUTF8 ENVIRONMENT BASE_PATH TZ DOCKER_TAG SCRIPT"


def test_variables_that_decide_what_code_runs_are_told_from_others():
    for name in DECIDE.split():
        assert display.decides_code(name), name
    for name in DO_NOT.split():
        assert not display.decides_code(name), name


BODY = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
HEX = "0123456789abcdef0123456789abcdef"

TOKENS = {
    f"ghp_{BODY}": "GITHUB_TOKEN",
    f"github_pat_11ABCDEFG0{BODY}_{BODY}": "GITHUB_TOKEN",
    f"glpat-{BODY[:20]}": "GITLAB_TOKEN",
    f"xoxb-123456789012-123456789012-{BODY[:24]}": "SLACK_TOKEN",
    f"sk-ant-api03-{BODY}-{BODY}AA": "ANTHROPIC_API_KEY",
    f"sk-proj-{BODY}": "OPENAI_API_KEY",
    f"sk-or-v1-{HEX}": "OPENROUTER_API_KEY",
    f"sk_live_{BODY}": "STRIPE_SECRET_KEY",
    "AKIAIOSFODNN7EXAMPLE": "AWS_ACCESS_KEY_ID",
    f"AIza{BODY[:35]}": "GOOGLE_API_KEY",
    f"npm_{BODY}": "NPM_TOKEN",
    f"hf_{BODY[:34]}": "HF_TOKEN",
    f"123456789:AA{BODY[:33]}": "TELEGRAM_BOT_TOKEN",
    f"SG.{BODY[:22]}.{BODY}": "SENDGRID_API_KEY",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl": "JWT",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY * 2}\nabc\n-----END OPENSSH PRIVATE KEY-----": "PRIVATE_KEY",
}
ORDINARY = """
    npx -y @modelcontextprotocol/server-github@1.2.3 sk-learn-server-for-tables ghp_short --stdio
    /home/me/task-manager-with-a-long-name risk-assessment-of-2026-01-01-and-later npm_config_prefix
    d41d8cd98f00b204e9800998ecf8427e 123e4567-e89b-12d3-a456-426614174000 mcp-server-fetch==2025.4.7
    https://mcp.example.com/sse git+https://github.com/org/repository.git@0123456789abcdef0123456789abcdef
    postgres://localhost/database sha256:0123456789abcdef0123456789abcdef eyJ.is.nothing AKIA
"""


@pytest.mark.parametrize(("token", "variable"), TOKENS.items(), ids=TOKENS.values())
def test_a_token_is_recognised_wherever_it_stands_and_masked_and_redacted(token, variable):
    for text in (token, f"https://mcp.example.com/{token}/mcp", f"--with={token}", f"a {token} b"):
        (found,) = tokens(text)
        assert (found.variable, text[found.start : found.end]) == (variable, token)
    server = Server(name="a", command="run", args=("serve", token, f"https://h/{token}/mcp", "last"))
    assert display.shown(server)["args"] == ["serve", "****", "https://h/****/mcp", "last"]
    assert token not in display.target(server)
    assert token in expand(server, {}.get).secrets


def test_ordinary_arguments_are_no_tokens_and_several_tokens_are_returned_in_order():
    for text in ORDINARY.split():
        assert tokens(text) == []
    found = tokens(f"sk-proj-{BODY},ghp_{BODY}")
    assert [each.variable for each in found] == ["OPENAI_API_KEY", "GITHUB_TOKEN"]
