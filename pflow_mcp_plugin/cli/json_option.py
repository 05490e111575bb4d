"""The option `--json`, which all `pflow mcp` commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., object])


def json_option(command: Function) -> Function:
    """Declare `--json` for the help of a `pflow mcp` command; the host parses it and prints the envelope."""
    option = click.option(
        "--json", is_flag=True, expose_value=False, help="Print the result as one JSON object."
    )
    return option(command)
