"""Keeps secrets out of output and records.

- `redactor`: masks configured values, and redacts known secrets from strings and JSON values
- `secret_forms`: the spellings in which programs write a secret, and the parts of it that a cut leaves
"""

from pflow_mcp_plugin.redaction.redactor import MASK, REDACTED, SHORTEST, Redactor, mask

__all__ = ["MASK", "REDACTED", "SHORTEST", "Redactor", "mask"]
