"""When OpenTelemetry is in use: each case in a program of its own, because a provider is set once."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
import sys
{before}
from pflow_mcp_plugin.telemetry.provider import tracer
made = tracer()
print("traces" if made else "none", "imported" if "opentelemetry" in sys.modules else "untouched")
"""
OWN = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
"""
OTEL = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED")


@pytest.fixture
def ask(monkeypatch):
    """Say whether a program with these variables traces, and whether OpenTelemetry was imported."""
    for name in OTEL:
        monkeypatch.delenv(name, raising=False)

    def ask(before="", **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        command = [sys.executable, "-c", ASK.format(before=before)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.split()

    return ask


@pytest.fixture
def sdk():
    pytest.importorskip("opentelemetry.sdk", reason="the extra [otel] is not installed")


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_nothing_is_imported_unless_traces_are_asked_for(ask, variables):
    assert ask(**variables) == ["none", "untouched"]


def test_the_api_alone_which_the_sdk_of_mcp_imports_is_not_use(ask):
    assert ask("import opentelemetry.trace") == ["none", "imported"]


def test_without_the_extra_the_variables_have_no_effect(ask):
    absent = "sys.modules['opentelemetry.sdk'] = None"
    assert ask(absent, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")[0] == "none"


def test_with_the_extra_a_provider_that_the_program_sets_is_used_and_the_environment_is_enough(ask, sdk):
    assert ask(OWN) == ["traces", "imported"]
    assert ask(OTEL_TRACES_EXPORTER="console") == ["traces", "imported"]


def test_a_console_gets_spans_on_stderr(pflow, sdk):
    done = pflow("registry", "run", "echo", "message=Hi", "--json", env={"OTEL_TRACES_EXPORTER": "console"})
    assert done.envelope["success"]
    assert '"pflow.outcome": "success"' in done.stderr
    assert '"service.name": "pflow"' in done.stderr
