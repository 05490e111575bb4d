"""The translation of a failure and its evidence into one of our errors."""

from __future__ import annotations

from typing import TypeVar

from pflow_mcp_plugin.client.failures.evidence import Evidence, failure
from pflow_mcp_plugin.client.failures.excerpt import plain
from pflow_mcp_plugin.client.failures.http_status import from_status
from pflow_mcp_plugin.client.failures.json_rpc import from_error
from pflow_mcp_plugin.client.failures.network import from_network
from pflow_mcp_plugin.client.failures.process_failures import (
    from_exit,
    from_memory,
    from_seen,
    stopped_reading,
    unreachable_step,
)
from pflow_mcp_plugin.client.failures.socket_errors import from_socket
from pflow_mcp_plugin.config.server_schema import server_path
from pflow_mcp_plugin.errors import DeadlineExceeded, McpError
from pflow_mcp_plugin.redaction import Redactor

E = TypeVar("E", bound=McpError)


def explain(error: BaseException, evidence: Evidence) -> McpError:
    """Translate a failure into one of our errors, redacted, with the original as `__cause__`."""
    # The order matters: a process that exits, for example, also breaks its pipes, and the SDK then reports
    # "Connection closed". The first witness is the closest to the cause.
    found = (
        from_memory(evidence)
        or from_seen(evidence)
        or _from_deadline(evidence)
        or from_exit(evidence)
        or from_socket(evidence, error)
        or from_network(evidence, error)
        or from_status(evidence)
        or from_error(error, evidence)
    )
    found.__cause__ = error
    return fit_to_show(found, evidence.redactor)


def fit_to_show(error: E, redactor: Redactor) -> E:
    """Redact a translated error and remove terminal codes: parts of it come from the server."""
    error.message = _shown(error.message, redactor)
    error.args = (error.message,)
    error.details, error.facts = redactor.value(error.details), redactor.value(error.facts)
    error.suggestions = tuple(_shown(step, redactor) for step in error.suggestions)
    return error


def _shown(text: str, redactor: Redactor) -> str:
    return redactor.text(plain(redactor.text(text)))  # terminal codes may be part of a secret, or split one


def _from_deadline(evidence: Evidence) -> McpError | None:
    if evidence.seconds is None:
        return None
    if evidence.exchange.unsent:
        return stopped_reading(evidence)
    name, seconds = evidence.server.name, f"{evidence.seconds:g} s"
    unmatched = evidence.seen.unmatched if evidence.seen else evidence.exchange.replies
    note = f"; {unmatched} replies matched no request" if unmatched else ""
    if evidence.installer:
        note = f": {evidence.installer} may still have been installing it"
    setting = f"{evidence.deadline} of server {name}"
    if evidence.config_file is not None:
        setting = f"{server_path(name)}.{evidence.deadline} in {evidence.config_file}"
    if not evidence.calling:
        return failure(
            f"Server {name} did not finish its {evidence.phase} within {seconds}{note}",
            evidence,
            retryable=True,
            next_step=unreachable_step(evidence.stderr) or f"raise {setting} if it needs longer",
            seconds=evidence.seconds,
            status=evidence.exchange.status,
        )
    return DeadlineExceeded(
        f"Tool {evidence.tool} on server {name} did not answer within {seconds} ({evidence.deadline}){note}",
        where=evidence.where,
        ran="unknown" if evidence.reached else "not ran",
        next_step=f"raise {setting} if the tool needs longer",
        seconds=evidence.seconds,
        stderr=evidence.stderr,
    )
