"""The faults that this folder plays, each under its number; a test checks that all are tested."""

from __future__ import annotations

STDIO = {
    1: "the command is missing",
    2: "the command is not executable",
    3: "the server exits at once",
    4: "it logs on stdout",
    5: "it breaks off in the middle of a message",
    6: "it writes invalid UTF-8",
    7: "it writes a huge or an endless line",
    8: "it does not answer the handshake",
    9: "it answers another id",
    10: "it answers three times",
    11: "it speaks another protocol version",
    12: "it stops reading",
    13: "it ignores the end of input and SIGTERM",
    14: "it starts grandchildren",
    15: "it starts a daemon",
    16: "it floods stderr",
    17: "it crashes during a call",
    18: "it hangs during a call",
    19: "a tool reports a failure",
    20: "it answers with a JSON-RPC error",
    21: "its list of tools is endless",
    22: "two of its tools share a name",
    23: "one of its tools is malformed",
    24: "a schema refers to itself, or explodes",
    25: "a schema refers to the network or to a file",
    26: "a pattern backtracks without end",
    27: "its tools change during a run",
    28: "a tool vanishes",
    29: "it asks for sampling or elicitation",
    30: "the host is killed",
    31: "it crashes over and over",
    32: "it dies while idle",
    33: "it exits on the probe",
    34: "it is silent on the probe",
}
HTTP = {
    35: "the connection is refused",
    36: "the host is not found",
    37: "the certificate is self-signed",
    38: "the certificate has expired",
    39: "the certificate is for another host",
    40: "401: nobody is logged in",
    41: "the token lacks a scope",
    42: "there is no endpoint",
    43: "the session is lost",
    44: "429: too many requests came",
    45: "500 or 503: the server fails",
    46: "it redirects to another host or to plain http",
    47: "an event stream is cut",
    48: "an event stream with ids is cut",
    49: "it demands a hostile pause",
    50: "an event is too large",
    51: "an answer is a compressed bomb",
    52: "an answer is reset or truncated",
    53: "an answer trickles",
    54: "it answers with a web page",
    55: "it answers another id",
}
SIGN_INS = {
    56: "two processes refresh one token",
    65: "a token has expired, and there is no refresh token",
    66: "a refresh token is refused",
    67: "the authorization server fails at a refresh",
    68: "the authorization server does not answer",
    69: "the issuer changed",
    70: "the URL of the server changed",
    71: "the authorization server does not name S256",
    72: "the metadata are those of another issuer",
    73: "the metadata name a URL of an unsafe scheme",
    74: "the authorization server has forgotten the client",
    75: "a scope is missing",
    76: "metadata or the token endpoint redirect to another host",
    77: "the keyring is locked",
    78: "the file of a sign-in is corrupt",
    79: "the file of a sign-in is of a newer schema",
    80: "the disk is full when a token is to be stored",
}
STORES = {
    57: "eight writers at once",
    58: "a writer is killed",
    59: "the disk is full or read-only",
    60: "a file is corrupt",
    61: "a file is of a newer schema",
    62: "a file has unknown keys",
    63: "the umask is loose or strict",
    64: "a file is a symlink",
}


OWN = frozenset(range(65, 100))
"""Those that the fault matrix beside the project does not have."""

FILES = {"test_stdio.py": STDIO, "test_http.py": HTTP, "test_sign_ins.py": SIGN_INS, "test_stores.py": STORES}
"""By the file that tests them."""


def file_of(row: int) -> str:
    """Return the name of the file that tests a row."""
    return next(file for file, rows in FILES.items() if row in rows)
