"""The load program, for a few seconds: `tox -e load` runs it for a minute."""

from __future__ import annotations

import pytest
from load import steady, surviving


@pytest.mark.slow
def test_a_server_under_load_answers_everything_and_grows_no_more(tmp_path):
    assert steady(tmp_path, 8, 8) == []


@pytest.mark.slow
def test_no_acknowledged_write_is_lost_when_a_process_is_killed(tmp_path):
    assert surviving(tmp_path, 4, 8) == []
