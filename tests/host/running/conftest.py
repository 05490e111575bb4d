import json

import attrs
import pytest


@pytest.fixture
def sent(bench):
    """Nodes that send `value`, `t-send`, and that look it up, `t-look`; what came, in order.

    They raise what `bench.failing` has for a value: an error, or those of the first attempts.
    """
    done = []

    def came(shared, params):
        value = params["value"]
        failure = bench.failing.get(value)
        if isinstance(failure, list):
            failure = failure.pop() if failure else None
        if failure is not None:
            raise failure
        done.append(value)
        shared["value"] = value

    for name in ("t-send", "t-look"):
        bench.acts(name, ["value: any!", "more"], ["value"])(came)
    bench.known["t-look"] = attrs.evolve(bench.known["t-look"], purity="flow_safe")
    return done


@pytest.fixture
def mended(tmp_path):
    """Write a workflow with which a run is resumed in place of its own; return the words that say so."""

    def words(workflow):
        path = tmp_path / "mended.json"
        path.write_text(json.dumps(workflow))
        return "--workflow", str(path)

    return words
