"""`pflow cache info | clear`."""

from __future__ import annotations

import time

import click

from pflow_mcp_plugin.contract import Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.cli.command_parameters import seconds
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.running.result_cache import ResultCache, Usage, open_cache
from pflow_mcp_plugin.terminal.human_units import age_text, count_text

_MB = 1 << 20


@click.command()
@click.pass_obj
def info(host: EmbeddedHost) -> Report:
    """Show how many results are kept for `pflow run --cache`, their size, the limit and the folder."""
    cache = _cache(host)
    usage = cache.usage()
    data: dict[str, JSON] = {**_counted(usage), "limit": cache.limit, "folder": str(cache.folder)}
    lines = [
        f"Results  {usage.entries:,}",
        f"Size     {usage.size / _MB:,.1f} MB of at most {cache.limit / _MB:,.0f} MB",
        f"Oldest   {age_text(str(data['oldest'])) if data['oldest'] else 'none'}",
        f"Folder   {cache.folder}",
    ]
    return Report(data=data, text="\n".join(lines))


@click.command()
@click.option(
    "--older-than",
    callback=seconds,
    default="0",
    metavar="TIME",
    help="Only results older than this, such as 90s, 15m, 1h or 2d.",
)
@click.pass_obj
def clear(host: EmbeddedHost, older_than: float) -> Report:
    """Remove the results that are kept for `pflow run --cache`."""
    gone = _cache(host).clear(older_than)
    words = count_text(gone.entries, "result")
    return Report(data=_counted(gone), text=f"Removed {words}, {gone.size / _MB:,.1f} MB")


def _cache(host: EmbeddedHost) -> ResultCache:
    return open_cache(host.paths.cache, host.settings.get, host.report)


def _counted(usage: Usage) -> dict[str, JSON]:
    oldest = None
    if usage.oldest is not None:
        oldest = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(usage.oldest))
    return {"entries": usage.entries, "size": usage.size, "oldest": oldest}
