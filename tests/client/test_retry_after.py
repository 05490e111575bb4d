"""When a refused request may go again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pflow_mcp_plugin.network.http_headers import retry_after


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), (" 0 ", 0.0), ("", None), ("soon", None), ("-3", None), ("1.5", None)]
)
def test_seconds_are_read_and_nothing_is_made_of_nonsense(header, seconds):
    assert retry_after(header) == seconds


def test_a_date_is_read_as_the_time_until_then():
    then = datetime.now(UTC) + timedelta(seconds=60)
    assert retry_after(format_datetime(then, usegmt=True)) == pytest.approx(60, abs=10)
    assert retry_after(format_datetime(then - timedelta(days=1))) == 0
