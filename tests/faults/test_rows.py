"""Every fault has a test, and every test a fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import rows

_FILES = {"test_stdio.py": rows.STDIO, "test_http.py": rows.HTTP, "test_stores.py": rows.STORES}


@pytest.mark.parametrize("file", _FILES)
def test_rows_and_tests_match_both_ways(file):
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    tested = {int(number) for number in re.findall(r"^def test_row_(\d\d)_", text, re.MULTILINE)}
    assert tested == set(_FILES[file])
