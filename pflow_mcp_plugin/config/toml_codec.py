"""Decodes TOML, as `storage.toml_text` does, and encodes it."""

from __future__ import annotations

from collections import Counter

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.storage.toml_text import TOKEN, decode

__all__ = ["TOKEN", "comments", "decode", "encode"]


def encode(document: JSONObject) -> bytes:
    """Encode a document as TOML.

    Raises:
        ValueError: It contains a value that TOML, or a string that UTF-8, cannot represent.
    """
    import tomli_w

    try:
        return tomli_w.dumps(document).encode()
    except TypeError as error:  # tomli_w raises it for null and objects
        raise ValueError(str(error)) from error


def comments(content: bytes) -> Counter[str]:
    """Decode only the comments of valid TOML, and count how often each occurs."""
    tokens = (found[0] for found in TOKEN.finditer(content.decode("utf-8-sig")))
    return Counter(token.rstrip() for token in tokens if token.startswith("#"))
