from datetime import UTC, datetime, timedelta

import pytest

from pflow_mcp_plugin.terminal.human_units import (
    age_text,
    count_text,
    duration_text,
    running_text,
    seconds_in,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (0.4, "<1 ms"),
        (999.5, "1.0 s"),
        (9_950, "10 s"),
        (125_000, "2 min 5 s"),
        (3_600_000, "1 h"),
        (12_000_000, "3 h 20 min"),
        (200_000_000, "2 d 7 h"),
    ],
)
def test_a_duration_has_at_most_two_units(milliseconds, text):
    assert duration_text(milliseconds) == text


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (timedelta(seconds=-60), "just now"),
        (timedelta(seconds=10), "10 s ago"),
        (timedelta(hours=5), "5 h ago"),
        (timedelta(days=1), "1 d ago"),
        (timedelta(days=30), "2026-04-04"),
    ],
)
def test_an_age_is_told_for_a_month(before, text):
    assert age_text(NOW - before, NOW) == text
    assert age_text((NOW - before).isoformat(), NOW) == text


def test_an_older_time_is_a_date_and_text_that_is_no_time_stays():
    assert age_text("2026-01-02T12:00:00.123Z", NOW) == "2026-01-02"
    assert age_text("2027-01-02T12:00:00", NOW) == "2027-01-02"
    assert age_text("some time", NOW) == "some time"


def test_a_count_has_a_singular_and_a_plural():
    assert [count_text(count, "tool") for count in (0, 1, 2_500)] == ["0 tools", "1 tool", "2,500 tools"]


def test_the_unit_of_what_still_runs_does_not_change_for_a_minute():
    assert [running_text(seconds) for seconds in (0, 60)] == ["0.0 s", "1 min"]


def test_what_is_no_time_or_too_long_a_time_is_named():
    for text, said in (("365.001d", "longer than 365 days"), ("-1s", "not a time")):
        with pytest.raises(ValueError, match=said):
            seconds_in(text)
