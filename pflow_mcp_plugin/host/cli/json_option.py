"""The option `--json`, which the host's commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., object])


def json_option(command: Function) -> Function:
    """Declare `--json` for the help of the host's commands: `main` looks for it and prints the envelope."""
    option = click.option(
        "--json", is_flag=True, expose_value=False, help="Print the result as one JSON object."
    )
    return option(command)
