"""The frame of every HTML page: one file, no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from html import escape

from pflow_mcp_plugin.terminal.looks import printable

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; --bar: #4a7dbd; --bad: #c33; }
@media (prefers-color-scheme: dark) { :root { --bad: #f77; } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 72rem; padding: 0 1rem; }
body { overflow-wrap: anywhere; }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; }
p { margin: .25rem 0; }
.bad { color: var(--bad); }
"""


def as_html(value: object) -> str:
    """Return a value as text of an HTML page: printable, and without markup."""
    return escape(printable(str(value)))


def page(title: str, body: str, style: str = "") -> str:
    """Return a whole HTML page in the common frame; untrusted values in `body` are escaped already."""
    # Allows the page's own styles only: no scripts, nothing loaded from elsewhere.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{as_html(title)}</title>
<style>{_STYLE}{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
