import json
import re
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_types import fields
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.expressions import Secrets, functions, parsed
from pflow_mcp_plugin.host.workflow.expressions.functions import signatures
from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading

FILES = [{"name": "a.md", "size": 3, "tags": ["x"]}, {"name": "b.py", "size": 9, "tags": ["x", "y"]}]
VALUES = {
    "count": 3,
    "ratio": 0.5,
    "done": False,
    "empty": [],
    "limit": 5,
    "files": FILES,
    "said": {"stdout": '{"items": [{"n": 1}, {"n": 2}]}', "lines": "a\r\nb\n\nc\n"},
    "read-file": {"content": "text"},
    "pair": (1, 2),
}


def failure_of(text, values):
    """Return the message of what evaluating an expression raises, None if it has a value."""
    try:
        value(text, values)
    except PflowError as error:
        return error.message
    return None


def value(text, values=VALUES, *current, **options):
    return parsed(text).value(values, *(current or (values,)), **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("files[?size > $.limit].name", ["b.py"]),
        ("sort_by(files, &name)[*].size", [3, 9]),
        # The members of a text that is JSON, as in a template.
        ("said.stdout.items[1].n", 2),
        ("to_json(files[0].tags)", '["x"]'),
        ("lines(said.lines)", ["a", "b", "", "c"]),
        ("join('-', split('a b', ' '))", "a-b"),
        ("group_by(files, &tags[0]) | x[].name", ["a.md", "b.py"]),
        ("items(group_by(files, &size > 5))[*].[@[0], length(@[1])]", [["false", 1], ["true", 1]]),
        ("unique([true, `1`, `1.0`, '1'])", [True, 1, 1.0, "1"]),
        ("from_csv('a,b\n1,\"x, y\"\n2\n')", [{"a": "1", "b": "x, y"}, {"a": "2", "b": None}]),
        ("to_csv(files)", 'name,size,tags\na.md,3,"[""x""]"\nb.py,9,"[""x"",""y""]"\n'),
        ("to_number('1e999')", None),
        ("to_number('1_0')", None),
        ("[contains([`[1]`], [true]), `[1]` == [true], {a: 0} == {a: false}]", [False] * 3),
        ("[`[1]` != [true], `[1, {}]` == `[1.0, {}]`, pair == `[1, 2]`]", [True] * 3),
        ("range(count)", [0, 1, 2]),
        ("zip(range(length(files)), files[].name)", [[0, "a.md"], [1, "b.py"]]),
        ("'a' < `1`", None),
        (
            'to_markdown(`[["a", "b"], [1], [null, true, {"k": [1]}]]`)',
            '| a | b |  |\n| --- | --- | --- |\n| 1 |  |  |\n|  | true | {"k":\\[1\\]} |\n',
        ),
        ("to_markdown([empty])", ""),
        ('to_markdown([`{"b": 1}`, `{"a": 2}`])', "| b | a |\n| --- | --- |\n| 1 |  |\n|  | 2 |\n"),
        ("sort_by(`[[1, 0], [2, 1], [1, 2], [2, 3]]`, &[0], 'desc')[*][1]", [1, 3, 0, 2]),
    ],
)
def test_an_expression_has_its_value(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "value"), [("'$${a}'", "${a}"), ("'$$${ $$'", "$${ $$"), ('`["$${", 1]`', ["${", 1])]
)
def test_a_literal_dollar_and_brace_is_escaped_as_in_templates(text, value):
    assert parsed(text).value({}) == value


@pytest.mark.parametrize(
    ("text", "message", "step"),
    [
        ("", "it is empty", "Write one"),
        ("a[::0]", "the step of a slice is 0", "Write another one"),
        ("count ==", "it ends too early at character 9", ""),
        ("count = 3", "unexpected = at character 7", "Compare with =="),
        ("count ** 2", "unexpected 2 at character 10", "There are no powers"),
        ("+ count", "unexpected + at character 1", "Something is missing"),
        ("count\xa0", r"unexpected '\xa0' at character 6", ""),
        ("{read-file: 1}", "unexpected -file: at character 6", "in double quotes"),
        ("name == '${name}'", "unexpected ${name}' at character 10", "without ${}"),
        ('name == `["a ${name}"]`', "unexpected ${name}", "$${ is a literal ${"),
        ("count > 'x", "at character 9", "single quotes"),
        ("`{`", "`{` is not JSON at character 1", ""),
        ("a && files[?lenght(name) > 3]", "there is no function lenght", "Did you mean length?"),
        ("length()", "length() takes 1 argument, not 0", "Write length("),
        ("sort_by(files, size)", "argument 2 of sort_by() is an expression with & before it", "&expression"),
        ("length(&size)", "argument 1 of length() is an expression without &", ""),
        ("&size", "& stands only before an argument", ""),
        ("a" * 5_000, "it has 5,000 characters", "Split"),
        ("a" + "|a" * 1_500, "nested deeper than 60 levels", "Split"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place_and_a_step(text, message, step):
    with pytest.raises(PflowError) as caught:
        parsed(text)
    assert caught.value.kind == "validation"
    assert message in caught.value.message
    assert step in "".join(caught.value.suggestions)
    place = re.search(r" at character (\d+)$", caught.value.message)
    details = {"expression": text[:4_000], **({"position": int(place[1])} if place else {})}
    assert caught.value.details == details


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("length(count)", "length() takes a string or a list or an object, not a number"),
        ('upper("read-file".lines[0])', 'upper() takes a string, not null; "read-file".lines[0] is null'),
        ("replace('a', $.b, c)", "replace() takes a string, not null; $.b is null and c is null"),
        ("join('', [null])", "join() takes a list of strings, not one that contains null"),
        ("join('', said.lines[*].name)", "not null; said.lines is a string that is not JSON, not a list"),
        ("join('', said[?n].name | [0])", "not null; said is an object with stdout, lines, not a list"),
        ("from_json('{')", "from_json() was given a string that is not JSON at character 2"),
        (
            """from_json('{"a": 1, "a": 2}')""",
            "from_json() was given a string that is not JSON: a key occurs twice",
        ),
        ("from_csv('a\n1,2')", "2 cells in row 2, and 1 in the first"),
        ("group_by(files, &tags)", "group_by() groups by a string or a number, and was given a list"),
        ("merge({a: 1}, {b: 2}, 'ab')", "merge() takes an object, not a string"),
        ("from_items([['a']])", "from_items() takes a list of pairs"),
        ("from_csv('a\n\"1')", "from_csv() was given a string that is not CSV: unexpected end of data"),
        ("sort_by(files, &tags)", "is a string, or a number, for every item, not a list"),
        ("max_by([1, 'a'], &@)", "max_by() compares strings, or numbers, not one with the other"),
        ("range(-1)", "range() takes a whole number that is not negative"),
        ("range(9999999999)", "it takes more than 2,000,000 steps"),
        ("range(`1" + "0" * 400 + "`)", "range() was given a number that is too large"),
        ("sum([2.5, `1" + "0" * 400 + "`])", "sum() was given a number that is too large"),
        ("sum(`[1e308, 1e308]`)", "the result of sum() is too large for a number"),
        ("avg(`[1e308, 1e308]`)", "the result of avg() is too large for a number"),
        ("to_markdown(`[1]`)", "to_markdown() takes a list of objects, or a list of lists"),
        ("sort_by(files, &size, 'down')", "the third argument of sort_by() is 'asc' or 'desc'"),
        ("now(1)", "now() takes 0 arguments, not 1"),
    ],
)
def test_an_expression_that_fails_says_which_and_why(text, message):
    with pytest.raises(PflowError) as caught:
        value(text)
    assert message in caught.value.message
    assert caught.value.details == {"expression": text}


def test_a_function_that_gets_null_points_to_failed_items_of_a_batch():
    with pytest.raises(PflowError) as caught:
        value("items[].words(result.content)", {"items": [{"result": None, "error": "gone"}]})
    assert "items[?!error].result" in caught.value.suggestions[-1]
    read = {"items": [{"result": None, "error": "gone"}, {"result": {"content": "a b"}, "error": None}]}
    assert value("items[?!error].result | [].words(content)", read) == [["a", "b"]]


def test_who_asks_text_for_a_member_is_told_how_to_name_all_of_it():
    with pytest.raises(PflowError) as caught:
        value("from_csv(data)", "a,b")
    assert any(step.endswith("is @") for step in caught.value.suggestions)


@given(text=st.text(max_size=8), end=st.text(max_size=8))
def test_a_prefix_or_suffix_is_removed_as_by_the_standard_library(text, end):
    for given_text in (text + end, end + text):
        values = {"t": given_text, "e": end}
        assert value("remove_prefix(t, e)", values) == given_text.removeprefix(end)
        assert value("remove_suffix(t, e)", values) == given_text.removesuffix(end)


def test_every_function_is_documented():
    text = (Path(__file__).parents[3] / "docs" / "workflows.md").read_text(encoding="utf-8")
    table = text.partition("| functions |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)[`(]", table)) == signatures().keys()


def test_a_cell_of_a_csv_text_may_be_long():
    long = "x" * 200_000
    assert value("from_csv(to_csv(rows))", {"rows": [{"text": long}]}) == [{"text": long}]


def test_an_expression_reads_values_and_nothing_else():
    class Thing:
        secret = "s"

        def get(self, key):
            raise AssertionError("an expression called a method")

        values = get

    values = {"thing": Thing(), "text": "abc", "list": [1]}
    for text in ("thing.secret", "thing.*", "thing.get", "text.upper", "list.append", "thing.__class__"):
        assert value(text, values) is None
    with pytest.raises(PflowError):
        value("to_json(thing)", values)


def test_an_expression_changes_no_value():
    values = {"list": [3, 1], "object": {"a": 1}}
    for text in ("sort(list)", "reverse(list)", "merge(object, {b: list})", "list[]", "object.*"):
        value(text, values)
    assert values == {"list": [3, 1], "object": {"a": 1}}


HUGE = {"list": list(range(3_000)), "texts": ["x" * 1_000] * 1_000, "ones": [[1] * 1_000] * 1_000}


@pytest.mark.parametrize(
    "text",
    [
        "|".join(["[@, @, @, @][]"] * 25),
        "list | map(&[$.list, @], @) | map(&[$.list, @], @) | [*][*][*]",
        "|".join(["[@, @]"] * 18 + ["@ == [@, @]"] * 3),
        "|".join(["join('', [@, @])"] * 40).replace("join('', [@, @])", "join('', $.texts)", 1),
        "replace(join('', texts), 'x', join('', texts))",
        "zip(" + ", ".join(["list"] * 600) + ") | map(&to_json(@), @) | map(&@, [@, @, @, @, @, @])[][]",
        "map(&group_by($.list, &@), list)",
        "list | map(&unique($.list), @)",
        "list[*].to_json($.ones)",
        "range(2000000) | map(&range(2000000), @)",
        "list[*].contains($.ones, `[2]`)",
    ],
)
def test_a_hostile_expression_ends_soon_and_without_much_memory(text, monkeypatch):
    monkeypatch.setattr(functions, "MOST_WORK", 200_000)  # a tenth, and a tenth of the time
    began = time.process_time()
    failure = failure_of(text, HUGE)
    assert failure is None or "takes more than" in failure or "more than 2,000,000 parts" in failure
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        *("split(commas, ',')", "split(commas, '')", "lines(ends)", "words(gaps)", "from_csv(commas)"),
        *("from_csv(wide)", "to_csv(objects)", "range(500000)", "lists[]", "tuple.a"),
        "zip(" + ", ".join(["list"] * 100) + ")",
        *("join(gaps, list_of_texts)", "replace(gaps, ' ', text)"),
    ],
)
def test_what_would_be_too_much_is_refused_before_it_is_made(text, monkeypatch):
    monkeypatch.setattr(functions, "MOST_WORK", 200_000)
    monkeypatch.setattr(functions, "LARGEST", 50_000)
    is_too_large = text.startswith(("join", "replace"))
    failure = "a value of more than 50,000 parts" if is_too_large else "takes more than 200,000 steps"
    values = {
        "commas": "," * 500_000,
        "ends": "\n" * 500_000,
        "gaps": "a " * 250_000,
        "wide": ",".join(map(str, range(1_000))) + "\n1" * 1_000,
        "objects": [{f"k{number}": 1} for number in range(700)],
        "list": [1] * 3_000,
        "lists": [[1] * 1_000] * 1_000,
        "tuple": (1,) * 500_000,
        "list_of_texts": ["x"] * 10,
        "text": "x" * 100,
    }
    tracemalloc.start()
    try:
        assert failure in (failure_of(text, values) or "it has a value")
        assert tracemalloc.get_traced_memory()[1] < 1_500_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text", ["|".join(["{a: @, b: @}"] * 40), "|".join(["list", *["map(&[@, @], @)"] * 30])]
)
def test_what_is_small_only_because_it_is_shared_is_too_large(text):
    assert "a value of more than 2,000,000 parts" in (failure_of(text, {"list": [1]}) or "it has a value")


def made_secret(secret, texts, values, *current):
    """Return what becomes a secret when expressions are evaluated over values with one."""
    added = []
    secrets = Secrets(
        lambda: frozenset({secret}),
        lambda text: text.replace(secret, "***"),
        lambda _, made: added.extend(made),
    )
    for text in texts:
        value(text, values, *current, secrets=secrets)
    return added


def test_what_a_function_makes_of_a_secret_is_a_secret():
    values = {"token": "Sk-Abc_Def", "header": "Bearer Sk-Abc_Def", "other": "nothing"}
    texts = ["upper(header)", "reverse(token)", "split(header, '_')", "upper(other)"]
    texts += ["replace(token, '_', '')", "remove_prefix(token, 'Sk-')", "remove_suffix(token, 'Def')"]
    found = made_secret("Sk-Abc_Def", texts, values)
    assert found == ["SK-ABC_DEF", "feD_cbA-kS", "Sk-Abc", "Def", "Sk-AbcDef", "Abc_Def", "Sk-Abc_"]
    assert made_secret("a_b\nc", ["to_markdown([['x'], [@]])"], {}, "key a_b\nc") == ["a\\_b<br>c"]


names = st.sampled_from(["a", "b", "c"])
scalars = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    st.sampled_from(['{"a": [1]}', "[[1], 2]", "1", "a,b\n1,2", "NaN"]),
)
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=3) | st.tuples(inner),
    max_leaves=12,
)
pieces = st.sampled_from(
    [
        *"abc.*@$[]{}()|&!<>=,:?'`\"- \n+/%\\é\x001",
        *("[]", "[?", "[*]", "[0]", "[::-1]", "==", "&&", "||", "'x'", "`1`", "`[1,{}]`", "//", "a: b", "&a"),
        *('"a b"', "2.5", "-1", "99999999999", "true", "null", *[f"{name}(" for name in signatures()]),
    ]
)
soup = st.lists(pieces, max_size=14).map("".join)


def _call(name, arguments):
    wanted = signatures()[name]
    given = [f"&{text}" if "expref" in wanted.types_at(at) else text for at, text in enumerate(arguments)]
    count = len(wanted.parameters)
    return f"{name}({', '.join(given[:count])})"


SIGNS = ["==", "<", "&&", "||", "|", "!=", "+", "-", "*", "/", "//", "%"]
sound = st.recursive(
    st.sampled_from(["a", "b", "@", "$", "$.c", "1", "2.5", "'x'", "true", "null", "`[1, [2]]`", "`{}`"]),
    lambda inner: st.one_of(
        st.builds(_call, st.sampled_from(sorted(signatures())), st.tuples(inner, inner, inner)),
        st.builds("({}) {} ({})".format, inner, st.sampled_from(SIGNS), inner),
        st.builds("({})[?{}]".format, inner, inner),
        st.builds("({}).{{a: {}, b: {}}}".format, inner, inner, inner),
        st.builds("({})[*].[{}, {}]".format, inner, inner, inner),
        st.builds("({})[]".format, inner),
        st.builds("!({})".format, inner),
        st.builds("-({})".format, inner),
        st.builds("({}).*".format, inner),
        st.builds("({})[1:]".format, inner),
    ),
    max_leaves=8,
)


@given(text=st.one_of(soup, st.text(max_size=40), sound), values=st.dictionaries(names, data, max_size=3))
def test_an_expression_has_a_value_or_raises_our_error(text, values):
    before = repr(values)
    assert failure_of(text, values) != ""
    assert repr(values) == before


@given(text=sound)
def test_every_expression_can_be_read_before_a_run(text):
    known = dict(zip([("a",), ("b",), ("c",)], fields("a: list", "b: str | int", "c: dict"), strict=True))
    try:
        expression = parsed(text)
    except PflowError:
        return
    result = Reading.of(expression, known.get).result
    json.dumps(result.schema())
    assert result.field("result").types


@given(
    text=st.one_of(sound, st.builds("{}({})".format, st.sampled_from(sorted(signatures())), names)),
    canary=data,
)
def test_the_error_of_an_expression_contains_no_data(text, canary):
    values = {"a": ["CANARY", canary], "b": {"key": "CANARY"}, "c": 'CANARY,CANARY\n"CANARY'}
    failure = failure_of(text, values)
    assert failure is None or "CANARY" not in failure


HOSTILE = ["|", "a|b", "`", "``x`", "\\", "\\|", "a\nb", "a\r\nb\rc", "*x*", "_x_", "[x](y)", "<b>", "&amp;"]
HOSTILE += ["~~x~~", "$x$", "![x](y)", "--- | ---", "| --- |", "# x", "- x", "<!-- x", "x\\", "", "é", "=1+1"]


def markdown_cells(text):
    """Return what a reader of Markdown with GitHub's tables shows: each row's cells."""
    markdown_it = pytest.importorskip("markdown_it")
    tokens = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    assert [it.type for it in tokens if it.level == 0] in (["table_open", "table_close"], [])
    shown = []
    for token in tokens:
        if token.type == "tr_open":
            shown.append([])
        elif token.type == "inline":
            assert {it.type for it in token.children} <= {"text", "text_special", "html_inline"}
            assert {it.content for it in token.children if it.type == "html_inline"} <= {"<br>"}
            shown[-1].append("".join(it.content for it in token.children))
    return shown


def test_cells_of_a_markdown_table_show_the_text_itself():
    rows = [[f"column {text}", f"{text} {text}"] for text in HOSTILE]
    as_shown = [
        [cell.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "<br>").strip() for cell in row]
        for row in rows
    ]
    assert markdown_cells(value("to_markdown(@)", VALUES, rows)) == as_shown
    objects = [{"name|x": text} for text in HOSTILE]
    assert markdown_cells(value("to_markdown(@)", VALUES, objects))[0] == ["name|x"]


FIELDS = {("run", it.key): it for it in fields("stdout: str", "code: int", "rows: list")}
SIZE, NAME = ("run", "rows", 0, "size"), ("run", "rows", 0, "name")


def read(text):
    return Reading.of(parsed(text), FIELDS.get)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("run.rows[0].name", [NAME]),
        ("run.rows[?size > $.limit] | [0].name", [SIZE, ("limit",), NAME]),
        ("sort_by(run.rows, &size)[*].name", [SIZE, NAME]),
    ],
)
def test_the_values_that_an_expression_reads_are_known(text, paths):
    reading = read(text)
    assert reading.longest_paths == paths
    assert not reading.everything


@pytest.mark.parametrize("text", ["@", "keys($)", "[$]", "*", "to_json(@)", "{all: $}", "map(&$, run.rows)"])
def test_an_expression_that_reads_all_values_is_known(text):
    assert read(text).everything


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("run.code == 3", "bool"),
        ("run.rows[*].name", "list"),
        ("run.x[*].name", "list | None"),
        ("run.x", "any"),
        ("-run.code // 2 + run.code", "int"),
        ("run.code + ratio", "float | int"),
    ],
)
def test_the_type_of_an_expression_is_known(text, kind):
    assert {*read(text).result.field("result").types} == {*map(str.strip, kind.split("|"))}


def test_the_members_of_an_object_that_is_made_are_known():
    schema = read("run.rows[*].{size: length(name), all: [`1`]}").result.schema()
    assert schema["items"] == {
        "type": ["dict"],
        "properties": {"size": {"type": ["int"]}, "all": {"type": ["list"]}},
        "additionalProperties": False,
    }
    json.dumps(schema)


@pytest.mark.parametrize("text", ["|".join(["{a: @, b: @}"] * 40), "|".join(["map(&{a: @, b: @}, @)"] * 30)])
def test_a_value_that_doubles_with_each_step_is_not_described(text):
    began = time.process_time()
    assert len(json.dumps(read(text).result.schema())) < 1_000
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("run.stdout > 3", "have no order"),
        ("length(run.code) > 3", "argument 1 of length() is a number"),
        ("{a: run.x}.b", "there is no b among a"),
        ("run.rows[?length(name) == '3']", "a number is compared with a string"),
    ],
)
def test_what_cannot_be_right_is_known(text, mistake):
    assert mistake in " ".join(message for message, _ in read(text).mistakes)


@pytest.mark.parametrize(
    "text",
    [
        *("run.stdout == null", "run.x > 3", "to_number(run.stdout) > 3", "run.stdout.items[0].n"),
        "not_null(run.stdout, `1`) == `1`",
    ],
)
def test_what_may_be_right_is_no_mistake(text):
    assert read(text).mistakes == []


def dated(expression, **values):
    return parsed(expression).value(values, values)


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("2026-01-31", None, "2026-01-31T00:00:00+00:00"),
        ("Sat, 31 Jan 2026 10:00:00 -0500", None, "2026-01-31T10:00:00-05:00"),
        ("3 MARCH 26, 11:05 pm", "%d %B %y, %I:%M %p", "2026-03-03T23:05:00+00:00"),
        ("12 am 1/2/1969", "%I %p %m/%d/%Y", "1969-01-02T00:00:00+00:00"),
        ("Tue May 5 2026 100%", "%a %b %d %Y 100%%", "2026-05-05T00:00:00+00:00"),
        ("2026 +0530", "%Y %z", "2026-01-01T00:00:00+05:30"),
    ],
)
def test_text_in_a_usual_form_or_a_form_of_its_own_is_a_date(text, form, expected):
    made = "parse_date(text, form)" if form else "parse_date(text)"
    found = dated(f"[{made}, parse_date({made})]", text=text, form=form)
    assert found == [expected, expected]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("parse_date(long)", "text that is not a date"),
        ("parse_date('5 Jan 2026 09:30:00 PM')", "text that is not a date"),
        ("parse_date('2026-367', '%Y-%j')", "not a date"),
        ("parse_date('13 2026', '%I %Y')", "does not have this form"),
        ("parse_date('2026 +9999', '%Y %z')", "not a date"),
        ("parse_date('1', '%d')", "a form without a year"),
        ("parse_date('2026 2025', '%Y %Y')", "names something twice"),
        ("format_date('2026-01-31', '%Z')", "does not know"),
        ("add_days('2026-01-31', 0.5)", "a fraction of a day"),
    ],
)
def test_what_is_no_date_fails_the_expression(expression, message):
    with pytest.raises(PflowError) as caught:
        dated(expression, long="2026" * 100_000)
    reason = caught.value.message.partition(" failed: ")[2]
    assert message in reason
    assert "2026" not in reason  # no data


@pytest.mark.parametrize(
    ("date", "days", "expected"),
    [
        ("2024-02-28", 1.0, "2024-02-29"),
        ("2026-01-31T10:00:00+02:00", 0.5, "2026-01-31T22:00:00+02:00"),
    ],
)
def test_days_are_added(date, days, expected):
    assert dated("add_days(date, days)", date=date, days=days) == expected


@given(moment=st.datetimes(timezones=st.just(UTC)), days=st.integers(-9, 9))
def test_a_date_survives_its_way_through_text(moment, days):
    date, short = moment.isoformat(), "%a %b %d %I %p %j"
    assert dated("parse_date(date)", date=date) == date
    form = "%A, %d %B %Y %H:%M:%S.%f %z"
    assert dated("parse_date(format_date(date, form), form)", date=date, form=form) == date
    assert dated("format_date(date, form)", date=date, form=short) == moment.strftime(short)
    try:
        later = (moment + timedelta(days=days)).isoformat()
    except OverflowError:
        return
    assert dated("add_days(date, days)", date=date, days=days) == later


def test_now_is_the_time_of_the_evaluation_where_no_run_says_it():
    before = datetime.now(UTC).replace(microsecond=0)
    found = datetime.fromisoformat(dated("now()"))
    assert before <= found <= datetime.now(UTC)
    assert parsed("[now(), now()]").value({}, {}, now="then") == ["then", "then"]


def test_now_is_when_the_run_began_in_every_step(bench):
    now = {"expression": "now()"}
    inner = flow(step("late", "transform", now), outputs={"at": "${late.result}"})
    outcome = bench.run(
        flow(
            step("first", "transform", now),
            step("inside", "workflow", {"workflow": inner}),
            step("same", "echo", {"message": "yes"}, when="first.result == now()"),
            outputs={"first": "${first.result}", "inside": "${inside.at}", "same": "${same.message}"},
        )
    )
    assert outcome.success, outcome.error
    assert outcome.outputs["same"] == "yes"
    assert outcome.outputs["first"] == outcome.outputs["inside"]
    assert re.sub(r"[-:]", "", outcome.outputs["first"][:19]).replace("T", "-") == outcome.run_id[:15]
