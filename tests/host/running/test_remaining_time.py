import itertools

import pytest

from pflow_mcp_plugin.host.running.terminal_display import RemainingTime


def test_nothing_is_estimated_at_once_or_without_a_finished_item():
    remaining = RemainingTime(0.0)
    assert remaining.text(60.0) == ""
    remaining.update(1, 10, 0.1)
    assert remaining.text(1.0) == ""


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (8, "8 s left"),
        (12, "10 s left"),
        (59, "1 min left"),
        (76, "1 min 30 s left"),
        (629, "10 min left"),
        (3600, "1 h left"),
    ],
)
def test_an_estimate_is_rounded_as_people_would(seconds, shown):
    remaining = RemainingTime(0.0)
    remaining.update(1, seconds + 2, 1.0)
    assert remaining.text(1.9) == ""
    assert remaining.text(2.0) == shown
    assert remaining.text(seconds + 4.0) == "1 s left"
    assert remaining.text(seconds + 4.1) == ""


def test_an_estimate_that_was_wrong_is_given_up_until_another_item_ends():
    remaining = RemainingTime(0.0)
    remaining.update(1, 11, 0.3)
    assert remaining.text(4.0) == "1 s left"
    assert remaining.text(6.0) == ""
    remaining.update(2, 11, 20.0)
    assert remaining.text(20.1) == "1 min 30 s left"


def test_items_that_end_in_bursts_do_not_make_it_jump():
    remaining = RemainingTime(0.0)
    ends = []
    done = 0
    for tick in range(1, 360):
        now = tick / 10
        for place in range(32):  # all within a tenth of a second, every four seconds
            if now - 0.1 < (done // 32 + 1) * 4 + place * 0.003 <= now:
                done += 1
                remaining.update(done, 320, now)
        if remaining.text(now):
            ends.append(remaining._end)
    jumps = [abs(one - other) for one, other in itertools.pairwise(ends)]
    assert done == 320 - 64
    assert max(jumps) < 2
    assert ends[-1] == pytest.approx(40, abs=2)
