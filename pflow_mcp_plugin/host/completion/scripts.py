"""The scripts by which shells ask pflow for completions."""

from __future__ import annotations

from pathlib import Path

from pflow_mcp_plugin.host.entrypoints import entry_points, is_own_script

SHELLS = ("bash", "zsh", "fish")


def programs() -> list[str]:
    """Return the names under which the program is installed."""
    return [it.name for it in entry_points("console_scripts") if is_own_script(it)] or ["pflow"]


def script(shell: str) -> str:
    """Return the completion script of a shell, for every name of the program."""
    template = Path(__file__).with_name(f"pflow.{shell}").read_text(encoding="utf-8")
    return template.replace("@PROGRAMS@", " ".join(programs()))
