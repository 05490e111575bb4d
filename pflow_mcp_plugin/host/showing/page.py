"""What every page has: one file, nothing loaded from elsewhere, everything escaped."""

from __future__ import annotations

import json
from html import escape
from typing import Any

# Only what stands in the page itself; a browser then refuses anything from elsewhere.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; --bar: #4a7dbd; --bad: #c33; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; }
p { margin: .25rem 0; }
.bad { color: var(--bad); }
"""


def page(title: str, body: str, style: str = "", script: str = "") -> str:
    """Return a whole HTML page.

    Args:
        title: Plain text.
        body: HTML; what came from outside is escaped in it.
        style: CSS.
        script: JavaScript, or empty.
    """
    program = f"<script>{script}</script>\n" if script else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<style>{_STYLE}{style}</style>
</head>
<body>
{body}
{program}</body>
</html>
"""


def embedded_json(value: Any) -> str:
    """Return a JSON value as it may stand inside a script element: nothing in it can end that."""
    text = json.dumps(value, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
