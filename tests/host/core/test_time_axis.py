import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.host.rendering.timeline import ticks


@pytest.mark.parametrize(
    ("length", "texts"),
    [
        (0.02, ["0", "0.005 ms", "0.01 ms", "0.015 ms", "0.02 ms"]),
        (900, ["0", "200 ms", "400 ms", "600 ms", "800 ms"]),
        (4_700, ["0", "1 s", "2 s", "3 s", "4 s"]),
        (1_500, ["0", "500 ms", "1 s", "1.5 s"]),
        (70_000, ["0", "15 s", "30 s", "45 s", "1 min"]),
        (8_000_000, ["0", "30 min", "1 h", "1 h 30 min", "2 h"]),
        (900_000_000, ["0", "3 d", "6 d", "9 d"]),
    ],
)
def test_ticks_are_at_round_times_in_the_units_of_people(length, texts):
    assert [text for _, text in ticks(length)] == texts


@given(st.floats(min_value=0.001, max_value=1e300))
def test_ticks_are_few_and_inside(length):
    places = [place for place, _ in ticks(length)]
    assert places[0] == 0
    assert len(places) <= 6
    assert max(places) <= 1 + 1e-9
