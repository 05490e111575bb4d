"""Keeps secrets out of output and records.

- `redactor`: redacts known secrets from strings and JSON values, and tells which of them are only words
- `secret_forms`: the spellings in which programs write a secret, and the parts of it that a cut leaves
"""

from pflow_mcp_plugin.redaction.redactor import REDACTED, SHORTEST, Redactor, unusual

__all__ = ["REDACTED", "SHORTEST", "Redactor", "unusual"]
