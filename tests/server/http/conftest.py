"""Servers for the tests of serving over HTTP."""

from collections.abc import Iterator

import httpx2
import pytest
from served import Served, Work, bearer, serving


@pytest.fixture(scope="session")
def _running() -> Iterator[Served]:
    with serving() as running:
        yield running


@pytest.fixture
def served(_running: Served) -> Iterator[Served]:
    """A server with a bearer token; other tests use it too."""
    yield _running
    _running.work.go_on.set()
    _running.work = Work()


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    """A client of `served` that has the token."""
    with httpx2.Client(headers=bearer(), timeout=20, trust_env=False, verify=False) as opened:
        yield opened
