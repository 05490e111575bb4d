import attrs
import pytest

from pflow_mcp_plugin import contract
from pflow_mcp_plugin.contract import Field, Interface, Sketch
from pflow_mcp_plugin.server_preset import ServerPreset


def _takes(*params, piped=""):
    return Interface(params=params, piped=piped)


@pytest.mark.parametrize(
    ("outputs", "named", "key"),
    [
        ("result other", "other", "other"),
        ("result other", "", "result"),
        *(("other", "", "other"), ("other more", "", ""), ("", "", "")),
    ],
)
def test_the_result_is_the_named_output_then_the_one_called_result_then_the_only_one(outputs, named, key):
    fields = [Field(key=name) for name in outputs.split()]
    assert Interface(outputs=fields, result=named).result_key == key


TITLE, BODY = (Field(key=key, type="str", required=True) for key in ("title", "body"))
COUNT = Field(key="count", type="int", required=True)
PROMPT, CONTEXT = Field(key="prompt", required=True), Field(key="context", type="str")
LINE = Field(key="command", type="str", required=True, shell_line=True)


@pytest.mark.parametrize(
    ("params", "named", "given", "key"),
    [
        # The only required text that lacks a value.
        ([TITLE, COUNT], "", (), "title"),
        ([TITLE, BODY], "", (), ""),
        ([TITLE, BODY], "", {"title"}, "body"),
        # The named one, unless it has a value.
        ([PROMPT, CONTEXT], "context", {"prompt"}, "context"),
        ([PROMPT, CONTEXT], "context", (), "prompt"),
        ([PROMPT, CONTEXT], "context", {"prompt", "context"}, ""),
        # Never a shell line.
        ([LINE], "", (), ""),
        ([LINE, Field(key="stdin")], "stdin", (), "stdin"),
    ],
)
def test_what_is_piped_goes_to_one_parameter_or_none(params, named, given, key):
    assert _takes(*params, piped=named).piped_key(given) == key


def test_the_result_and_the_piped_parameter_must_be_fields_and_survive_json():
    with pytest.raises(ValueError, match=r"Interface\.result names no field: 'b'"):
        Interface(outputs=(Field(key="a"),), result="b")
    with pytest.raises(ValueError, match=r"Interface\.piped names no field: 'b'"):
        _takes(Field(key="a"), piped="b")
    whole = Interface(
        params=(Field(key="a"),), outputs=(Field(key="b"), Field(key="c")), result="b", piped="a"
    )
    assert Interface.from_dict(whole.to_dict()) == whole


def test_a_field_names_its_choices_and_whether_it_needs_a_value():
    listed = Field(key="a", required=True, schema={"enum": ["x", 2]})
    assert (listed.choices, listed.needs_value) == (("x", 2), True)
    defaulted = Field(key="a", required=True, schema={"default": 1, "enum": "x"})
    assert (defaulted.choices, defaulted.needs_value) == ((), False)
    assert (Field(key="a", schema=True).choices, Field(key="a").needs_value) == ((), False)


BORDER_TYPES = [
    ServerPreset,
    *(
        kind
        for name in contract.__all__
        if isinstance(kind := getattr(contract, name), type) and attrs.has(kind) and kind is not Sketch
    ),
]


def wrong_for(field):
    """Return values that a field must refuse."""
    if field.type in ("str", "bool", "Mapping[str, str]"):
        return None, 7, b"x", ["x"]
    if field.type == "Kind" or field.type.startswith("Literal["):
        return None, 7, "neither"
    if field.type.startswith("tuple["):
        return (7,), (object(),), "text"
    return (7, "x") if field.type in ("Entry", "Interface", "Problem | None", "bool | None") else ()


@pytest.mark.parametrize("kind", BORDER_TYPES)
def test_every_text_switch_list_and_choice_of_a_border_type_refuses_another_value_and_names_the_field(kind):
    for field in attrs.fields(kind):
        for wrong in wrong_for(field):
            with pytest.raises((TypeError, ValueError), match=field.name):
                field.validator(None, field, wrong)
