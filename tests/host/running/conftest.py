import json

import pytest


@pytest.fixture
def sent(bench):
    """A node that sends `value` and returns it, or raises what `bench.failing` has for it; what was sent."""
    done = []

    @bench.acts("t-send", ["value: any!", "more"], ["value"])
    def send(shared, params):
        value = params["value"]
        if (failure := bench.failing.get(value)) is not None:
            raise failure
        done.append(value)
        shared["value"] = value

    return done


@pytest.fixture
def mended(tmp_path):
    """Write a workflow with which a run is resumed in place of its own; return the words that say so."""

    def words(workflow):
        path = tmp_path / "mended.json"
        path.write_text(json.dumps(workflow))
        return "--workflow", str(path)

    return words
