"""`pflow completion bash | zsh | fish`."""

from __future__ import annotations

import click

from pflow_mcp_plugin.contract import Report
from pflow_mcp_plugin.host.completion.scripts import SHELLS, script
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Write the script where the shell finds it.")
@click.option("--uninstall", is_flag=True, help="Remove what --install wrote.")
@click.pass_obj
def completion(host: EmbeddedHost, shell: str, *, install: bool, uninstall: bool) -> Report:
    """Print the completion script of a shell, or install it."""
    if install and uninstall:
        raise click.UsageError("--install and --uninstall exclude each other.")
    if not install and not uninstall:
        text = script(shell)
        return Report(data={"shell": shell, "script": text}, text=text, is_data=True)
    from pflow_mcp_plugin.host.completion.installation import installation

    place = installation(shell, host.paths.data)
    written, removed = (place.install(), []) if install else ([], place.uninstall())
    data = {"shell": shell, "written": [*map(str, written)], "removed": [*map(str, removed)]}
    lines = [f"Wrote {path}" for path in written] + [f"Removed completion from {path}" for path in removed]
    end = "New shells complete `pflow`" if install else ""
    return Report(data=data, text="\n".join(lines or ["Nothing to change"]) + (f"\n{end}" if end else ""))
