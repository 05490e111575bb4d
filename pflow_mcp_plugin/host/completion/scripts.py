"""The scripts by which shells ask pflow for completions."""

from __future__ import annotations

from pathlib import Path

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    return Path(__file__).with_name(f"pflow.{shell}").read_text(encoding="utf-8")
