"""Tokens are recognised by the shapes that their issuers publish. None of these was ever valid."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.config.expansion import expand
from pflow_mcp_plugin.secret_detection import tokens
from pflow_mcp_plugin.types import Server

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
def test_a_token_is_recognised_wherever_it_stands(token, variable):
    for text in (token, f"https://mcp.example.com/{token}/mcp", f"--with={token}", f"a {token} b"):
        assert [(found.variable, text[found.start : found.end]) for found in tokens(text)] == [
            (variable, token)
        ]


@pytest.mark.parametrize("text", ORDINARY.split())
def test_ordinary_arguments_are_no_tokens(text):
    assert tokens(text) == []


def test_several_tokens_are_returned_in_order():
    one, other = f"ghp_{BODY}", f"sk-{BODY}"
    assert [found.variable for found in tokens(f"{other},{one}")] == ["OPENAI_API_KEY", "GITHUB_TOKEN"]


@pytest.mark.parametrize("token", TOKENS)
def test_a_positional_token_is_masked_and_redacted(token):
    server = Server(name="a", command="run", args=("serve", token, f"https://h/{token}/mcp", "last"))
    assert display.shown(server)["args"] == ["serve", "****", "https://h/****/mcp", "last"]
    assert token not in display.target(server)
    assert token in expand(server, {}.get).secrets
