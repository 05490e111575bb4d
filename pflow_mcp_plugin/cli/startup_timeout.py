"""The option `--startup-timeout` of commands that start servers."""

from __future__ import annotations

import click

from pflow_mcp_plugin.config.field_checks import DAY

startup_timeout = click.option(
    "--startup-timeout",
    type=click.FloatRange(min=0, min_open=True, max=DAY),
    metavar="SECONDS",
    help="Time for the start of each server, downloads included.",
)
"""Adds the option to a command; its value is None if it is not given."""
