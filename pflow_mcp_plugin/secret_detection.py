"""Secrets in a server's config: detected by names and positions, and masked where they are displayed.

What has the shape of a token is a secret, too: see `tokens`. These are heuristics that prefer to
mask too much: a missed secret is shown only to the user who wrote it. References are more reliable:
every value they bring into `env`, `headers` and `auth` is secret (see `expansion`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

_SECRET = re.compile(
    r"auth|bearer|cookie|credential|dsn|jwt|key|pass(?!ive)|pwd|secret|session|\bsig\b|signature|token"
    r"|(?:^|[_-])pat(?:$|[_-])"
)
# Patterns that few commands need are text: `re` compiles one when it is first used.
_ABOUT_ONE = (
    r"(?i)^(?:allow|disable|enable|no|require|skip|use)[_-]"
    r"|max[_-]?tokens"
    r"|(?:askpass|command|count|dir|endpoint|expiry|file|folder|handler|helper|length|limit|mode|path|provider|scheme"
    r"|scopes?|script|size|timeout|ttl|type)$"
)
"""Names of a secret's properties, such as its file or length, which are not secret."""
_NAMED = re.compile(r"-{0,2}(?P<name>[\w.-]+)(?:=|:\s*)(?=.)", re.DOTALL)
_FLAG = re.compile(r"-{1,2}(?P<name>\w[\w.-]*)")
_QUERY = re.compile(r"[?&](?P<name>[^=&#\s]+)=(?P<value>[^&#\s]+)")
_PAIR = (
    r"""(?:(?<![\w.-])(?P<name>[\w.-]{1,64})["']?[ \t]{0,3}[=:][ \t]{0,3}"""
    r"""|(?<![\w.-])-{1,2}(?P<flag>[\w.-]{1,64})[ \t]{1,3}(?!-)"""
    r"""|<(?P<tag>[\w.-]{1,64})>)["'{]?(?P<rest>[^;\r\n]{1,4096})"""
)
_WORD_END = r"""[\s"',&}\]<]"""
_CREDENTIALS = r"(?:^|[\s:])[^\s:/@]{1,64}[:/](?P<password>[^\s/@]{1,256})@(?P<host>(?:tcp|unix)\(|//)?"
"""User and password without a scheme, such as `me/SECRET@//host/db` and `me:SECRET@tcp(host)/db`."""
_BASIC = r"[^\s:]+:(?P<password>\S+)"
_NO_SECRETS = frozenset(
    ("basic", "bearer", "digest", "false", "none", "null", "oauth2", "optional", "required", "string", "true")
)
_SHORTEST_PART = 6
"""The fewest characters of a value in a structured text that count as a secret."""
_LONG_WORD = r"[A-Za-z0-9+/=_-]{16,}"
"""A line of a key, or another long word."""
_LARGEST = 1 << 20
_MOST_PAIRS = 500
_USER_INFO = r"://(?P<user>[^/?#\s@:]*):(?P<password>[^/?#\s@]+)@"
_LONE_USER = r"://(?=[^/?#\s@:.]*\d)(?=[^/?#\s@:.]*[A-Za-z])(?P<token>[^/?#\s@:.]{12,256})@"
"""A user without a password that is not a name, but a token."""


MASK = "****"
_REFERENCE = r"\$\{(?P<name>[^{}:]+)(?::-(?P<default>[^{}]*))?\}"
_REFERENCES_ONLY = (
    r"(?i)(?:(?:basic|bearer|digest|token|apikey|negotiate)\s+)?"
    r"(?:\$\{[^{}]+\}[\s:;,/@]*)+"
)


def mask(value: str) -> str:
    """Return a configured value, which may be a secret, masked as `****`; only references are kept.

    A value that is only `${...}` references (perhaps after an auth scheme, as in
    `Bearer ${TOKEN}`) stays as it is, except that defaults in the references are masked. Any other
    value becomes `****`, whatever its length.
    """
    if not value:
        return value
    if not re.fullmatch(_REFERENCES_ONLY, value.strip()):
        return MASK
    return re.sub(
        _REFERENCE, lambda found: f"${{{found['name']}:-{MASK}}}" if found["default"] else found[0], value
    )


def is_secret(name: str) -> bool:
    """Whether a variable, header, option or query parameter contains a secret, by its name."""
    return _SECRET.search(name.casefold()) is not None and re.search(_ABOUT_ONE, name) is None


def in_arguments(args: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the command-line arguments that contain a secret, as index and start of the secret.

    The forms are `--token=SECRET`, `--token SECRET`, `API_KEY=SECRET` and `Authorization: SECRET`.
    """
    for index, argument in enumerate(args):
        if (named := _NAMED.match(argument)) and is_secret(named["name"]):
            yield index, named.end()
        before = _FLAG.fullmatch(args[index - 1]) if index else None
        if before and is_secret(before["name"]) and not argument.startswith("-"):
            yield index, 0


def in_urls(text: str) -> Iterator[str]:
    """Yield the secrets in the URLs of a string: passwords, and query parameters such as `?api_key=`."""
    # A password equal to the user name does not count: redacting `postgres` in every message hides nothing.
    found = re.finditer(_USER_INFO, text)
    yield from (each["password"] for each in found if each["password"] != each["user"])
    yield from (each["token"] for each in re.finditer(_LONE_USER, text))
    yield from (text[start:end] for start, end in in_queries(text))


def in_queries(text: str) -> Iterator[tuple[int, int]]:
    """Yield the secret values in URL queries, as start and end of each."""
    yield from (found.span("value") for found in _QUERY.finditer(text) if is_secret(found["name"]))


def within(text: str, *, is_secret_whole: bool = False) -> Iterator[str]:
    """Yield the secrets detected in structured text: JSON, connection strings, keys of many lines.

    References must have been replaced by their values. `is_secret_whole` says that the text is known to be a
    secret, so that its parts are secrets too.
    """
    if len(text) > _LARGEST:
        return
    decoded = _decoded(text) if is_secret_whole else ""
    if is_basic := re.fullmatch(_BASIC, decoded):
        yield is_basic["password"]
    for each in filter(None, (text, decoded)):
        yield from _in_json(each, is_secret_whole=is_secret_whole)
        yield from _in_pairs(each)
        if is_secret_whole:
            yield from in_urls(each)
        found = re.finditer(_CREDENTIALS, each)
        yield from (pair["password"] for pair in found if is_secret_whole or pair["host"])
        lines = each.replace("\\n", "\n").splitlines()
        if len(lines) > 1 and (is_secret_whole or "-----BEGIN" in each):
            yield from (line.strip() for line in lines if re.fullmatch(_LONG_WORD, line.strip()))


def _in_pairs(text: str) -> Iterator[str]:
    at = 0
    for _ in range(_MOST_PAIRS):
        found = re.compile(_PAIR).search(text, at)
        if found is None:
            return
        at = found.start("rest")  # a value may begin with the next name
        if is_secret(found["name"] or found["flag"] or found["tag"]):
            rest = found["rest"].strip()
            first = re.split(_WORD_END, rest, maxsplit=1)[0]
            at += len(first)
            scheme, _, second = rest.partition(" ")
            after = re.split(_WORD_END, second, maxsplit=1)[0] if scheme.lower() in _NO_SECRETS else ""
            whole = rest if ";" in text and "://" not in text else ""  # what may hold spaces
            for value in {whole, first, after}:
                if len(value) >= _SHORTEST_PART and value.lower() not in _NO_SECRETS:
                    yield value


def _in_json(text: str, *, is_secret_whole: bool) -> Iterator[str]:
    if not text.lstrip().startswith(("{", "[", '"')):
        return
    import json

    try:
        left = [(json.loads(text), False)]
    except (ValueError, RecursionError):
        return
    while left:
        value, is_named = left.pop()
        if isinstance(value, dict):
            # Headers are often `{"name": "Authorization", "value": SECRET}`.
            names = [value[key] for key in ("name", "key") if isinstance(value.get(key), str)]
            kept = {"value"} if any(map(is_secret, names)) else set()
            left += [(item, is_named or is_secret(name) or name in kept) for name, item in value.items()]
        elif isinstance(value, list):
            left += [(item, is_named) for item in value]
        elif isinstance(value, int) and not isinstance(value, bool) and is_named:
            yield str(value)
        elif isinstance(value, str):
            is_random = is_secret_whole and re.fullmatch(_LONG_WORD, value) and re.search(r"\d", value)
            if (is_named or is_random) and value.lower() not in _NO_SECRETS:
                yield from (value, value.rpartition(" ")[2])
            yield from in_urls(value)
            yield from within(value, is_secret_whole=is_named)


def _decoded(text: str) -> str:
    import binascii
    from base64 import b64decode

    word = text.strip().rpartition(" ")[2]
    if len(word) < _SHORTEST_PART or len(word) % 4:
        return ""
    try:
        return b64decode(word, altchars=b"-_" if {"-", "_"} & set(word) else None, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


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


class Token(NamedTuple):
    """A secret that a text contains, detected by the shape of a token."""

    variable: str  # the usual name of a variable for it
    start: int
    end: int  # the character after it


def tokens(text: str) -> list[Token]:
    """Return the secrets in a text that have the shape of a token, in order; they do not overlap."""
    found: list[Token] = []
    for variable, anchor, pattern in _SHAPES:
        if anchor in text:  # most patterns are never compiled
            every = re.finditer(rf"(?<![A-Za-z0-9])(?:{pattern})", text, re.ASCII)
            new = [Token(variable, *match.span()) for match in every]
            found += [
                token for token in new if all(it.end <= token.start or token.end <= it.start for it in found)
            ]
    return sorted(found, key=attrgetter("start"))
