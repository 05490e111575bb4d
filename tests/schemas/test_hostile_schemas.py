from contextlib import suppress
from time import monotonic

import pytest
from hostile import ARGUMENTS, KEYWORDS, ODD, SCHEMAS, one_by_one
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.schemas.argument_validation import Validator

SCALARS = st.sampled_from([value for value in ODD if not isinstance(value, list | dict)])
VALUES = st.recursive(
    SCALARS | st.floats() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.sampled_from(["a", "b", 1, None, (1,)]), inner, max_size=3)
    ),
    max_leaves=8,
)


def checked(schema, *several):
    validator = Validator(schema, Where(server="s", tool="t"))
    for arguments in several:
        started = monotonic()
        with suppress(McpError):
            validator.check(arguments)
        assert monotonic() - started < 10


@pytest.mark.slow
@pytest.mark.parametrize("keyword", KEYWORDS)
def test_each_keyword_may_hold_anything(keyword):
    for schema in one_by_one(keyword):
        checked(schema, *ARGUMENTS)


@given(SCHEMAS, VALUES)
def test_any_schema_and_any_arguments_will_do(schema, arguments):
    checked(schema, arguments)


def test_what_is_nested_without_end_is_refused():
    value = []
    value.append(value)
    deep = None
    for _ in range(100_000):
        deep = [deep]
    for endless in (value, deep):
        with pytest.raises(McpError, match="a JSON value"):
            Validator({}, Where()).check({"a": endless})
