"""Which of the addresses of a server's host is used."""

from __future__ import annotations

import anyio
import httpcore2
import pytest

from pflow_mcp_plugin.network.checked_connections import _first


class Stream(httpcore2.AsyncNetworkStream):
    """Stands for a connection to an address."""

    def __init__(self, address):
        self.address = address

    async def aclose(self):
        """Close it."""


def reached(addresses, refusing):
    async def connected(address):
        if address in refusing:
            raise httpcore2.ConnectError(f"{address} refused")
        return Stream(address)

    return anyio.run(_first, addresses, connected).address


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_first_address_that_answers_is_used_wherever_it_stands(number):
    addresses = [f"192.0.2.{each}" for each in range(number)]
    for answering in addresses:
        before = addresses[: addresses.index(answering)]
        assert reached(addresses, before) == answering
    with pytest.raises((OSError, httpcore2.ConnectError), match=f"{addresses[-1]} refused"):
        reached(addresses, addresses)
