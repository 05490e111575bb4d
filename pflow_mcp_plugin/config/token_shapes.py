"""Recognises tokens by the prefixes and shapes that their issuers publish, wherever they stand.

The list is our own: of the maintained rule sets in Python, detect-secrets (1.5.0) takes half a second to
import and brings six packages. It knows several of these shapes only as strings of high entropy, as it
does hashes and paths. The rules of gitleaks and trufflehog come with programs written in Go.

A token without a prefix, such as a password or a random string, cannot be recognised.
"""

from __future__ import annotations

import re
from operator import attrgetter

import attrs

_SHAPES = (
    ("ANTHROPIC_API_KEY", "sk-ant-", r"sk-ant-[\w-]{20,}"),
    ("OPENROUTER_API_KEY", "sk-or-", r"sk-or-[\w-]{20,}"),
    ("STRIPE_SECRET_KEY", "k_live_", r"[rs]k_live_\w{16,}"),
    ("STRIPE_SECRET_KEY", "k_test_", r"[rs]k_test_\w{16,}"),
    ("STRIPE_WEBHOOK_SECRET", "whsec_", r"whsec_[\w+/]{24,}=*"),
    ("OPENAI_API_KEY", "sk-", r"sk-(?=[\w-]*\d)[\w-]{20,}"),
    ("GITHUB_TOKEN", "gho_", r"gho_[A-Za-z0-9]{20,}"),
    ("GITHUB_TOKEN", "ghp_", r"ghp_[A-Za-z0-9]{20,}"),
    ("GITHUB_TOKEN", "ghs_", r"ghs_[A-Za-z0-9]{20,}"),
    ("GITHUB_TOKEN", "ghu_", r"ghu_[A-Za-z0-9]{20,}"),
    ("GITHUB_TOKEN", "ghr_", r"ghr_[A-Za-z0-9]{20,}"),
    ("GITHUB_TOKEN", "github_pat_", r"github_pat_\w{20,}"),
    ("GITLAB_TOKEN", "glpat-", r"glpat-[\w.-]{20,}"),
    ("GITLAB_TOKEN", "gloas-", r"gloas-[\w.-]{20,}"),
    ("GITLAB_TOKEN", "gldt-", r"gldt-[\w.-]{20,}"),
    ("GITLAB_TOKEN", "glrt-", r"glrt-[\w.-]{20,}"),
    ("GITLAB_TOKEN", "glptt-", r"glptt-[\w.-]{20,}"),
    ("GITLAB_TOKEN", "glagent-", r"glagent-[\w.-]{20,}"),
    ("SLACK_TOKEN", "xox", r"xox[abeoprs](?:\.xox[bp])?-[\w-]{10,}"),
    ("SLACK_TOKEN", "xapp-", r"xapp-[\w-]{10,}"),
    ("SLACK_WEBHOOK", "/B", r"(?<=\.com/services/)T[A-Z0-9]{7,}/B[A-Z0-9]{7,}/\w{20,}"),
    ("AWS_ACCESS_KEY_ID", "AKIA", r"AKIA[A-Z2-7]{16}"),
    ("AWS_ACCESS_KEY_ID", "ASIA", r"ASIA[A-Z2-7]{16}"),
    ("GOOGLE_API_KEY", "AIza", r"AIza[\w-]{30,}"),
    ("GOOGLE_TOKEN", "ya29.", r"ya29\.[\w.-]{20,}"),
    ("GOOGLE_CLIENT_SECRET", "GOCSPX-", r"GOCSPX-[\w-]{20,}"),
    ("NPM_TOKEN", "npm_", r"npm_[A-Za-z0-9]{30,}"),
    ("PYPI_TOKEN", "pypi-", r"pypi-[\w-]{40,}"),
    ("HF_TOKEN", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    ("GROQ_API_KEY", "gsk_", r"gsk_[A-Za-z0-9]{30,}"),
    ("REPLICATE_API_TOKEN", "r8_", r"r8_[A-Za-z0-9]{30,}"),
    ("XAI_API_KEY", "xai-", r"xai-[A-Za-z0-9]{40,}"),
    ("PERPLEXITY_API_KEY", "pplx-", r"pplx-[A-Za-z0-9]{30,}"),
    ("NVIDIA_API_KEY", "nvapi-", r"nvapi-[\w-]{30,}"),
    ("TAVILY_API_KEY", "tvly-", r"tvly-[\w-]{20,}"),
    ("FIRECRAWL_API_KEY", "fc-", r"fc-[0-9a-f]{32}"),
    ("APIFY_TOKEN", "apify_api_", r"apify_api_\w{30,}"),
    ("NOTION_TOKEN", "ntn_", r"ntn_\w{30,}"),
    ("NOTION_TOKEN", "secret_", r"secret_[A-Za-z0-9]{43}"),
    ("LINEAR_API_KEY", "lin_api_", r"lin_api_\w{30,}"),
    ("FIGMA_TOKEN", "figd_", r"figd_[\w-]{30,}"),
    ("ATLASSIAN_TOKEN", "ATATT", r"ATATT[\w=-]{20,}"),
    ("SENTRY_TOKEN", "sntry", r"sntry[su]_[\w+/=-]{30,}"),
    ("SENDGRID_API_KEY", "SG.", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("SHOPIFY_TOKEN", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("SUPABASE_TOKEN", "sbp_", r"sbp_\w{30,}"),
    ("SUPABASE_SECRET_KEY", "sb_secret_", r"sb_secret_\w{20,}"),
    ("DIGITALOCEAN_TOKEN", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("DATABRICKS_TOKEN", "dapi", r"dapi[0-9a-f]{32}"),
    ("POSTHOG_API_KEY", "phx_", r"phx_\w{30,}"),
    ("TELEGRAM_BOT_TOKEN", ":AA", r"\d{8,10}:AA[\w-]{33}"),
    ("AGE_SECRET_KEY", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
    ("JWT", "eyJ", r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    (
        "PRIVATE_KEY",
        "PRIVATE KEY-----",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    ),
)
"""`(variable, anchor, pattern)` of each kind of token: the variable in which one usually keeps it, and a
string that is part of it. The first of two that overlap counts."""


@attrs.frozen
class Token:
    """A token in a text.

    Attributes:
        variable: The usual name of a variable for it.
        start: Its first character.
        end: The character after it.
    """

    variable: str
    start: int
    end: int

    def overlaps(self, other: Token) -> bool:
        """Return whether two recognised tokens have a character in common."""
        return self.start < other.end and other.start < self.end


def tokens(text: str) -> list[Token]:
    """Return what has the shape of a token in a text, in order; tokens do not overlap."""
    found: list[Token] = []
    for variable, anchor, pattern in _SHAPES:
        if anchor in text:  # most patterns are never compiled
            every = re.finditer(rf"(?<![A-Za-z0-9])(?:{pattern})", text, re.ASCII)
            new = [Token(variable, *match.span()) for match in every]
            found += [token for token in new if not any(token.overlaps(other) for other in found)]
    return sorted(found, key=attrgetter("start"))
