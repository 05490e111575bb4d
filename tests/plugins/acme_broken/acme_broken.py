"""Fails when it is imported."""

from no_such_acme_library import tickets  # noqa: F401
