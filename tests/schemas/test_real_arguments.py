"""The check of arguments says what jsonschema says, on the schemas of 527 real tools.

For each schema: at least 50 values that fit and 50 that do not, all different, or as many as fit.
A few closed schemas (no arguments; a switch) have fewer that fit: then all of them are tried. Of
those that do not fit at least 50 are objects, unless the schema takes any object there is: then
they are texts, numbers, lists.
"""

import livemcpbench
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from probes import ENOUGH, Maker, as_json, how_many

from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.schemas.argument_validation import Validator

pytestmark = pytest.mark.slow

SERVERS = {server.name: server.tools for server in livemcpbench.servers()}
TRIES = 4000
# Here `"exclusiveMinimum": true, "minimum": 0` says "more than 0", which it does in draft 4 alone. In the
# dialect that the schema is in, it is a mistake, and jsonschema's answer an accident: it refuses 1, for
# Python finds 1 <= True. The server takes 1, the number of a document's first page; so do we.
MISTAKEN = {"read_pdf"}


def oracle(schema):
    return validator_for(schema, default=Draft202012Validator)(schema)


def as_meant(schema):
    if isinstance(schema, list):
        return [as_meant(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: as_meant(part) for key, part in schema.items()}
    if parts.get("exclusiveMinimum") is True:
        parts["exclusiveMinimum"] = parts.pop("minimum")
    return parts


def accepts(validator, value):
    try:
        validator.check(value)
    except McpError:
        return False
    return True


def takes_any_object(schema):
    return (
        not schema.get("required")
        and schema.get("additionalProperties") is not False
        and not any(
            part.keys() & {"type", "enum", "const", "anyOf"} for part in schema.get("properties", {}).values()
        )
    )


def as_given(schema, value):
    """Leave out each null whose declared default is null: it means that nothing is given."""
    if not isinstance(value, dict):
        return value
    unset = {key for key, part in schema.get("properties", {}).items() if part.get("default", "") is None}
    return {key: part for key, part in value.items() if part is not None or key not in unset}


def probed(schema, right, seed):
    """Return distinct values by whether they fit: enough of either kind, or all that fit."""
    maker, values, objects = Maker(schema, seed), {True: {}, False: {}}, 0
    most, any_object = min(ENOUGH, how_many(schema)), takes_any_object(schema)
    for _ in range(TRIES):
        value = maker.fitting() if len(values[True]) < most else maker.mutated()
        known = values[right.is_valid(as_given(schema, value))]
        objects += known is values[False] and as_json(value) not in known and isinstance(value, dict)
        known[as_json(value)] = value
        if len(values[True]) >= most and (len(values[False]) if any_object else objects) >= ENOUGH:
            return values
    return pytest.fail(f"{seed}: {len(values[True])} fit, {len(values[False])} do not")


@pytest.mark.parametrize("server", SERVERS)
def test_what_fits_is_accepted_and_what_does_not_is_refused(server):
    for tool in SERVERS[server]:
        schema = tool["inputSchema"]
        right = oracle(as_meant(schema) if tool["name"] in MISTAKEN else schema)
        validator = Validator(schema, Where(server=server, tool=tool["name"]))
        for fits, values in probed(schema, right, f"{server} {tool['name']}").items():
            wrong = [value for value in values.values() if accepts(validator, value) is not fits]
            assert not wrong, f"{tool['name']}: jsonschema says {fits}"


def test_only_what_is_a_mistake_in_its_own_dialect_is_read_otherwise():
    assert sum(len(tools) for tools in SERVERS.values()) == 527
    mistaken = set()
    for tools in SERVERS.values():
        for tool in tools:
            try:
                oracle(tool["inputSchema"]).check_schema(tool["inputSchema"])
            except SchemaError:
                mistaken.add(tool["name"])
    assert mistaken == MISTAKEN
