"""OpenTelemetry: spans of runs and tool calls, if a program or the environment asks for them.

- `provider`: whether OpenTelemetry is in use; its set-up from the variables of its specification
- `spans`: the span of a run, the span of a tool call, and the context that another thread works in

Nothing of OpenTelemetry is imported until it is in use. Spans hold names, ids and outcomes. They never
hold arguments, results or messages, because these may contain secrets.
"""
