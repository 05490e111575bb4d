"""Tables with aligned columns, cut to the width of a terminal; not cut elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pflow_mcp_plugin.contract.printable_text import printable
from pflow_mcp_plugin.host.standard_streams import is_terminal


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of rows under headers, each on one line, with what is hidden in it escaped.

    On a terminal a line that is too long is cut, so that each row stays one line.
    """
    cells = [list(headers), *([printable(" ".join(cell.split())) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
    if is_terminal(sys.stdout):
        import shutil  # not needed when the output is piped

        room = shutil.get_terminal_size().columns
        lines = (line if len(line) <= room else line[: room - 1] + "…" for line in lines)
    return "\n".join(lines)
