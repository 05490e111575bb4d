"""The JSON Schema for editors and the reader come to the same verdict on the structure of a workflow."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workflow_parts import flow

from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.host.workflow import normalise
from pflow_mcp_plugin.host.workflow.constructs import BATCH, CACHE, RETRY, VERIFY, valid_members
from pflow_mcp_plugin.host.workflow.document_reader import (
    _KEYS,
    EDGE_KEYS,
    INPUT_KEYS,
    NODE_KEYS,
    SCHEMA_FILE,
    read_document,
)
from pflow_mcp_plugin.host.workflow.findings import Findings

TABLES = {"batch": BATCH, "cache": CACHE, "retry": RETRY, "verify": VERIFY}
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

texts = st.one_of(
    st.sampled_from(["a", "b-1", "", "__run__", "__", "a\n", "a b", "é", "${a.b}", "default", "str", "1.0"]),
    st.text(alphabet="a_-1${} |.\n", max_size=6),
)
scalars = st.one_of(
    texts, st.none(), st.booleans(), st.integers(-2, 2000), st.floats(allow_nan=False, allow_infinity=False)
)
anything = st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(texts, scalars, max_size=2))


def members(**fitting):
    return st.fixed_dictionaries({}, optional={key: value | anything for key, value in fitting.items()})


names = st.sampled_from(["a", "b", "c-1"])
counts = st.one_of(st.integers(0, 12), st.sampled_from([1000, 1001, 2.0, 2.5, 100, 101]))
batches = members(
    **{
        "items": st.one_of(st.just("${a.list}"), st.lists(scalars, max_size=2)),
        "as": st.one_of(names, texts),
        "parallel": st.booleans(),
        "max_concurrent": counts,
        "error_handling": st.sampled_from(["fail_fast", "continue", "stop", None]),
        "max_retries": counts,
        "retry_wait": counts,
        "paralel": st.booleans(),
    }
)
retries = members(max=counts, wait=counts, backoff=counts, often=counts)
nodes = members(
    id=st.one_of(names, texts),
    type=names,
    params=st.dictionaries(texts, scalars, max_size=2),
    batch=st.one_of(batches, st.just({"items": [1]})),
    retry=st.one_of(retries, st.just({"max": 1})),
    cache=st.one_of(st.booleans(), members(ttl=st.one_of(counts, st.just(31_536_001)), often=counts)),
    verify=members(
        node=names, happened=texts, result=texts, params=st.dictionaries(texts, texts), often=texts
    ),
    purpose=texts,
    when=texts,
)
kinds = st.sampled_from(["str", "int|None", " array | null ", "any", "text", "", "str |", "None"])
inputs = members(type=kinds, required=st.booleans(), description=texts)
workflows = members(
    nodes=st.lists(st.one_of(nodes, st.just({"id": "a"})), max_size=3),
    edges=st.lists(members(**{"from": names, "to": names, "action": texts, "when": texts}), max_size=2),
    start_node=names,
    inputs=st.dictionaries(st.one_of(names, texts), st.one_of(inputs, anything), max_size=2),
    outputs=st.dictionaries(texts, st.one_of(texts, members(source=texts)), max_size=2),
    mappings=st.dictionaries(
        names, members(input_mappings=st.dictionaries(texts, texts), output_mappings=anything), max_size=2
    ),
    enable_namespacing=st.booleans(),
    template_resolution_mode=st.sampled_from(["strict", "permissive", "lax", None]),
    ir_version=st.sampled_from(["1.0", "0.1", "1", "2.0", "1.", "x", "01.5", "10", "1\n", ""]),
    other=anything,
)


def agree_on(workflow):
    """Check that the reader and the JSON Schema come to the same verdict."""
    findings = Findings()
    read_document(normalise(workflow), findings)
    errors = errors_in(findings.problems)
    judged = next(VALIDATOR.iter_errors(workflow), None)
    assert (judged is None) == (not errors), (judged and judged.message, [str(error) for error in errors])


@given(workflow=workflows | st.builds(flow, nodes) | anything)
def test_on_generated_workflows_and_on_anything(workflow):
    agree_on(workflow)


@given(spec=st.one_of(inputs, anything), name=texts)
def test_on_generated_inputs(spec, name):
    # Whether a default fits its type no JSON Schema can say: "3" fits an int here.
    if isinstance(spec, dict):
        spec.pop("default", None)
    agree_on(flow({"id": "a"}, inputs={name: spec}))


def test_the_schema_is_one_and_describes_every_key():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    keys = {"node": NODE_KEYS, "edge": EDGE_KEYS, "input": INPUT_KEYS, **TABLES}
    assert set(SCHEMA["properties"]) == _KEYS
    assert {name: set(SCHEMA["$defs"][name]["properties"]) for name in keys} == {
        name: set(known) for name, known in keys.items()
    }


@pytest.mark.parametrize("table", TABLES)
def test_a_member_of_a_table_that_is_null_counts_as_absent(table):
    findings = Findings()
    assert valid_members(dict.fromkeys(TABLES[table]), TABLES[table], "$", findings, {}) == {}
    assert not findings.problems
    assert valid_members({"odd": 1}, TABLES[table], "$", findings, {}) == {}
    assert [problem.path for problem in findings.problems] == ["$.odd"]
