"""Dates in expressions, which do not depend on the locale or the time zone of the machine."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.expressions import parsed


def value(expression, **values):
    return parsed(expression).value(values, values)


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("2026-01-31", None, "2026-01-31T00:00:00+00:00"),
        ("Sat, 31 Jan 2026 10:00:00 -0500", None, "2026-01-31T10:00:00-05:00"),
        ("3 MARCH 26, 11:05 pm", "%d %B %y, %I:%M %p", "2026-03-03T23:05:00+00:00"),
        ("12 am 1/2/1969", "%I %p %m/%d/%Y", "1969-01-02T00:00:00+00:00"),
        ("Tue May 5 2026 100%", "%a %b %d %Y 100%%", "2026-05-05T00:00:00+00:00"),
        ("2026 +0530", "%Y %z", "2026-01-01T00:00:00+05:30"),
    ],
)
def test_text_in_a_usual_form_or_a_form_of_its_own_is_a_date(text, form, expected):
    made = "parse_date(text, form)" if form else "parse_date(text)"
    found = value(f"[{made}, parse_date({made})]", text=text, form=form)
    assert found == [expected, expected]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("parse_date(long)", "text that is not a date"),
        ("parse_date('5 Jan 2026 09:30:00 PM')", "text that is not a date"),
        ("parse_date('2026-367', '%Y-%j')", "not a date"),
        ("parse_date('13 2026', '%I %Y')", "does not have this form"),
        ("parse_date('2026 +9999', '%Y %z')", "not a date"),
        ("parse_date('1', '%d')", "a form without a year"),
        ("parse_date('2026 2025', '%Y %Y')", "names something twice"),
        ("format_date('2026-01-31', '%Z')", "does not know"),
        ("add_days('2026-01-31', 0.5)", "a fraction of a day"),
    ],
)
def test_what_is_no_date_fails_the_expression(expression, message):
    with pytest.raises(PflowError) as caught:
        value(expression, long="2026" * 100_000)
    reason = caught.value.message.partition(" failed: ")[2]
    assert message in reason
    assert "2026" not in reason  # no data


@pytest.mark.parametrize(
    ("date", "days", "expected"),
    [
        ("2024-02-28", 1.0, "2024-02-29"),
        ("2026-01-31T10:00:00+02:00", 0.5, "2026-01-31T22:00:00+02:00"),
    ],
)
def test_days_are_added(date, days, expected):
    assert value("add_days(date, days)", date=date, days=days) == expected


@given(moment=st.datetimes(timezones=st.just(UTC)), days=st.integers(-9, 9))
def test_a_date_survives_its_way_through_text(moment, days):
    date, short = moment.isoformat(), "%a %b %d %I %p %j"
    assert value("parse_date(date)", date=date) == date
    form = "%A, %d %B %Y %H:%M:%S.%f %z"
    assert value("parse_date(format_date(date, form), form)", date=date, form=form) == date
    assert value("format_date(date, form)", date=date, form=short) == moment.strftime(short)
    try:
        later = (moment + timedelta(days=days)).isoformat()
    except OverflowError:
        return
    assert value("add_days(date, days)", date=date, days=days) == later


def test_now_is_the_time_of_the_evaluation_where_no_run_says_it():
    before = datetime.now(UTC).replace(microsecond=0)
    found = datetime.fromisoformat(value("now()"))
    assert before <= found <= datetime.now(UTC)
    assert parsed("[now(), now()]").value({}, {}, now="then") == ["then", "then"]


def test_now_is_when_the_run_began_in_every_step(bench):
    now = {"expression": "now()"}
    inner = flow(step("late", "transform", now), outputs={"at": "${late.result}"})
    outcome = bench.run(
        flow(
            step("first", "transform", now),
            step("inside", "workflow", {"workflow": inner}),
            step("same", "echo", {"message": "yes"}, when="first.result == now()"),
            outputs={"first": "${first.result}", "inside": "${inside.at}", "same": "${same.message}"},
        )
    )
    assert outcome.success, outcome.error
    assert outcome.outputs["same"] == "yes"
    assert outcome.outputs["first"] == outcome.outputs["inside"]
    assert re.sub(r"[-:]", "", outcome.outputs["first"][:19]).replace("T", "-") == outcome.run_id[:15]
