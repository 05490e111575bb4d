"""Classifies a failure by the message of the tool.

Tools report failures as text only. Status codes, error names and phrases count only where the words
around them are unambiguous: `404` is a status in `404 Client Error`, not in `404 rows`; `timeout` is
not a failure where it names a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

ERROR = "error"

_READ = 2000
"""Characters of a tool's message to examine: messages name the failure near the start."""

STATUS_ACTIONS: Mapping[object, str] = {
    401: "auth_failed",
    403: "auth_failed",
    404: "resource_missing",
    408: "timeout",
    410: "resource_missing",
    429: "rate_limited",
    504: "timeout",
}

_BEFORE_STATUS = (
    r"\bhttp(?:/\d(?:\.\d)?)?(?:[ _-]?(?:error|status|exception|response))?(?:[ _-]?code)?",
    r"\bstatus(?:[ _-]?code)?(?: of)?",
    r"\b(?:response|error|err)[ _-]?code",
    r"\bcode['\"]? ?[:=]",
    r"\b(?:api|client|server|request|response|fetch|upstream)[ _]?(?:error|failed)",
    r"\b(?:failed|error|responded|replied|returned|answered|rejected) with(?: an?)?(?: (?:status|error))?",
    r"\berror executing tool \S{1,128}",
    r"\w*(?:error|exception)",
)
_BEFORE_CLEAR_STATUS = (r"\b(?:returned|received|responded|failed)",)
"""Words in a tool's message that may precede a status as well as any other number."""
_REASONS = (
    r"client error|unauthori[sz]ed|forbidden|not found|too many requests|gone\b"
    r"|request time-?out|gateway time-?out"
)
_COUNTED = (
    r"is|rows|records|entries|items|results|lines|bytes|characters|files|pages|users|issues|orders|times"
)
"""Words in a tool's message that may follow a number that is not a status."""
_STATUS = (
    rf"(?:{'|'.join(_BEFORE_STATUS)})[^\w\n]{{0,5}}([45]\d\d)(?![\w.]|,\d|\s+(?:{_COUNTED})\b)"
    rf"|(?:{'|'.join(_BEFORE_CLEAR_STATUS)})[^\w\n]{{0,3}}([45]\d\d)"
    r"(?=\s*(?:[:;{(\[\])\"'-]|\.?\s*\Z|(?:for|from|on|when|while|error)\b))"
    rf"|\A([45]\d\d)(?![\w.,]| (?:{_COUNTED}|[a-z]+[^\Ws]s)\b)"
    rf"|(?<![\w.])([45]\d\d)[^\w\n]{{1,3}}(?:{_REASONS})"
)

_PARAMETER = r"(?:param(?:eter)?|argument|arg|option|flag|field|property|attribute|setting|keyword)s?"
_NAME = r"[\w.-]{0,40}(?:time[_-]?outs?(?:[_-]?\w{1,20})?|rate[ _-]?limits?(?:[_-]\w{1,20})?)"
_QUALIFIED = rf"\b(?:\w{{1,20}} )?{_NAME}"
_DEMAND = (
    r"(?:must|should|cannot|can ?not|can't|may not|ha(?:s|ve) to|needs? to)\b"
    r"|(?:is|are|was) (?:required|missing|invalid|too|out of|an? )"
    r"|(?:is|are|was) not (?:an?|valid|allowed|supported|set|permitted)\b"
    r"|(?:field|input|value|expected|extra|required|unrecognized|invalid)\b"
)
_NOT_SAID = (
    # a path may contain any word
    r"\b\w{2,10}://\S+",
    r"['\"]/[^'\"\n]{1,300}['\"]",
    # parameters and options
    rf"(?<!\w)--?{_NAME}",
    rf"\b{_PARAMETER}(?: named?)?[^\w\n]{{1,3}}{_NAME}",
    rf"{_QUALIFIED}[^\w\n]{{0,3}}(?:{_PARAMETER}|value)\b",
    rf"{_QUALIFIED}\W{{1,4}}(?:{_DEMAND})",
    rf"\b{_NAME} ?[=<>]+ ?\S+",
    (
        rf"\b(?:invalid|unknown|bad|negative|missing|unexpected)(?: value for)?[^\w\n]{{1,3}}{_QUALIFIED}"
        r"(?=\W*(?:\Z|[:(=]))"
    ),
    # misspellings in a query or a command
    (
        r"\b(?:column|function|operator|type|option|parameter|argument|property) \S{1,100} "
        r"(?:does not|doesn't) exist"
    ),
    r"\b(?:command|module|method|function|column|option|parameter|argument) not found",
)
"""Phrases of a message that do not report a failure: they are removed before the rest is examined."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    "rate_limited": (
        r"\brate[ _-]?limit(?:s|ing)?\b.{0,40}\b(?:exceeded|reached|hit|error)\b",
        r"\b(?:exceed(?:ed|s|ing)?|reached|hit)\b.{0,60}\brate[ _-]?limits?\b",
        r"\brate[ _-]?limited\b",
        r"\bratelimited\b",
        r"\brate_?limit_?(?:error|exceeded|exception)",
        r"\btoo[ _]many[ _]requests\b",
        r"\btoomanyrequests",
        r"\bthrottl(?:ed|ing)(?:exception)?\b",
        r"\bresource_?exhausted\b",
        r"\b(?:quota|request limit)[ _]?exceeded\b",
        r"\bexceeded (?:your|the)\b.{0,20} quota\b",
    ),
    "auth_failed": (
        r"\bunauthori[sz]ed(?:error|exception)?\b",
        r"\bunauthenticated\b",
        r"\bnot[ _]?authenticated\b",
        r"(?:\A|[:(]\s*|\baccess (?:is )?|\berror )forbidden(?=\s*(?:[.:,;!)]|\Z))",
        r"\bbad credentials\b",
        r"\bauthentication[ _]?(?:failed|required|error|exception)",
        r"\brequires authentication\b",
        (
            r"\b(?:invalid|expired|missing|incorrect|revoked|bad|no)[ _](?:\w{1,20} )?"
            r"(?:api[ _-]?key|access[ _-]?token|auth[ _-]?token|bearer token|token|credentials?)\b"
            r"(?! (?:limit|count|type|at|in|near|on line|position)\b|:? ['\"(<])"
        ),
        (
            r"\b(?:api[ _-]?key|access[ _-]?token|token|credentials?)"
            r" (?:is |are |has |have |was |were )?(?:been )?(?:invalid|expired|revoked|rejected)\b"
        ),
        r"\b(?:invalid_auth|not_authed|token_expired|token_revoked|account_inactive|missing_scope)\b",
        r"\b(?:expiredtoken|invalidaccesskeyid|accessdenied|signaturedoesnotmatch)",
        r"\baccess denied for user\b",
        r"\bnot accessible by (?:integration|personal access token)\b",
        r"(?-i:\bPERMISSION_DENIED\b|\bcode = PermissionDenied\b)",
    ),
    "timeout": (
        r"(?<![a-z])timed[ _-]?out\b",
        r"timedout\b",
        r"\bdeadline[ _]?exceeded\b",
        r"\b\w{0,30}timeout_?(?:error|exception|expired)\b",
        r"\b(?:read|connect|write|pool)timeout\b",
        r"\btime-?out (?:of )?[\d.,]+ ?\w{0,12}\b.{0,10}\bexceeded\b",
        (
            r"\btime-?out (?:has |was |is )?(?:been )?"
            r"(?:exceeded|expired|reached|occurred|error|after|while|waiting)\b"
        ),
        r"\b(?:exceeded|reached|hit)\b.{0,20}\btime-?out\b",
        r"\b(?:due to|because of)\b.{0,20}\btime-?out\b",
        (
            r"\b(?:connection|connect|read|request|gateway|network|socket|response|query|operation|navigation"
            r"|upstream|server|handshake|idle|lock|statement|execution) time-?out\b"
        ),
        r"(?-i:(?:\A|[:(]\s{0,2})Timeout(?=[:.!,)]|\s*\Z))",
    ),
    "resource_missing": (
        r"\bnot found\b",
        r"_not_found\b",
        r"\bnot_found\b",
        r"(?-i:\b(?:Resource)?NotFound(?:Error|Exception)?\b)",
        r"\bfile_?not_?found",
        r"\bcould(?: not|n't) (?:be found|find)\b",
        r"\b(?:does not|doesn't) exist\b",
        r"\bno such (?:file|directory|key|table|resource|bucket|object|entity|host|user|container|image)\b",
        r"\bno such [a-z_ ]{2,30}: ['\"`]?\w",
        r"\bnosuch(?:key|bucket|entity|upload)\b",
        r"\benoent\b",
        r"\bresource_missing\b",
    ),
}


def action_of(text: str) -> str:
    """Return the action for the words of a tool's message, `error` if they name no specific failure."""
    said = _one_of(*(f"(?:{words})" for words in _NOT_SAID)).sub(" ", text[:_READ].strip())
    if _one_of(*_WORDS["rate_limited"]).search(said):  # GitHub sends it with status 403
        return "rate_limited"
    for found in _one_of(_STATUS).finditer(said):
        status = int(next(group for group in found.groups() if group))
        if status in STATUS_ACTIONS:
            return STATUS_ACTIONS[status]
    return next((action for action, words in _WORDS.items() if _one_of(*words).search(said)), ERROR)


@cache
def _one_of(*words: str) -> re.Pattern[str]:
    """Compile what finds any of these in a tool's message: only for a message, as it takes milliseconds."""
    return re.compile("|".join(words), re.IGNORECASE)
