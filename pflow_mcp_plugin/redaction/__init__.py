"""Keeps secrets out of output and records.

- `redactor`: masks configured values, redacts known secrets from strings and JSON values, and tells which
  of them are only words
- `secret_forms`: the spellings in which programs write a secret, and the parts of it that a cut leaves
"""

from pflow_mcp_plugin.redaction.redactor import MASK, REDACTED, SHORTEST, Redactor, mask, unusual

__all__ = ["MASK", "REDACTED", "SHORTEST", "Redactor", "mask", "unusual"]
