import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import Report
from pflow_mcp_plugin.terminal.looks import Column, Table, text_width

SERVERS = Table(
    columns=(
        Column(title="NAME", whole=True),
        Column(title="TOOLS", right=True, whole=True),
        Column(title="RUNS"),
    ),
    rows=(("clock", "2", "python -m clock --zone Europe/Lisbon"), ("日本", ("none", "bad"), "")),
    below={1: ("    run: pflow\x1b",)},
)


def test_prose_is_cut_where_there_is_no_terminal_too_and_whole_on_a_wide_one():
    table = Table(columns=(Column(whole=True), Column(prose=True)), rows=[("name", "a" * 500)])
    assert table.render() == f"name  {'a' * 119}…"
    assert table.render(600) == f"name  {'a' * 500}"


def test_on_a_terminal_columns_that_matter_stay_and_others_are_cut():
    assert SERVERS.render(30).splitlines()[1] == "clock      2  python -m clock…"
    assert SERVERS.render(16).splitlines()[1] == "clock      2"
    coloured = SERVERS.render(60, coloured=True)
    assert ("\x1b[31mnone\x1b[0m" in coloured, "\x1b[1mNAME\x1b[0m" in coloured) == (True, True)


def test_what_can_be_spared_is_left_out_first():
    columns = (Column(title="A", whole=True, spare=True), Column(title="B"), Column(title="C", spare=True))
    table = Table(columns=columns, rows=[("a" * 10, "b" * 10, "c" * 10)])
    assert table.render(34).splitlines()[1].split() == ["a" * 10, "b" * 10, "c" * 10]
    assert table.render(30).splitlines()[1].split() == ["a" * 10, "b" * 10]
    assert table.render(14).splitlines()[1].split() == ["b" * 10]


def test_columns_that_should_be_whole_are_cut_where_nothing_else_is_left():
    columns = (Column(title="NAME", whole=True), Column(title="STATE", whole=True), Column(title="RUNS"))
    table = Table(columns=columns, rows=[("a" * 45, "never synced", "x")])
    assert table.render(59).splitlines()[1] == f"{'a' * 45}  never synced"
    assert table.render(40).splitlines()[1] == f"{'a' * 25}…  never synced"


def test_on_a_terminal_a_column_without_cells_is_left_out():
    table = Table(
        columns=(Column(title="A", whole=True), Column(title="B"), Column(title="C")), rows=[("a", "", "c")]
    )
    assert table.render().splitlines() == ["A  B  C", "a     c"]
    assert table.render(30).splitlines() == ["A  C", "a  c"]


def test_a_broken_column_goes_on_in_further_lines():
    columns = (Column(whole=True), Column(broken=True), Column(whole=True))
    rows = [("one", "words that need more room", "x"), ("two", "few", "y")]
    assert Table(columns=columns, rows=rows, indent=2).render(24).splitlines() == [
        "  one  words that      x",
        "       need more room",
        "  two  few             y",
    ]


def test_lines_that_are_no_columns_are_broken_at_spaces():
    told = Table(
        columns=(Column(whole=True),),
        rows=[(("one: failed: no such thing", "bad"),)],
        below={0: ("  look look look look",)},
    )
    assert told.render(20, coloured=True).split("\n") == [
        "\x1b[31mone: failed: no such\x1b[0m",
        "\x1b[31m  thing\x1b[0m",
        "  look look look",
        "  look",
    ]


def test_only_a_column_that_is_a_tree_keeps_the_spaces_that_its_cells_begin_with():
    table = Table(columns=(Column(tree=True), Column()), rows=[("  a  b", "  c"), ("d", "e")])
    assert table.render().splitlines() == ["  a b  c", "d      e"]


@given(
    st.lists(st.lists(st.text(max_size=40), min_size=3, max_size=3), max_size=4),
    st.integers(28, 90),
    st.booleans(),
    st.booleans(),
)
def test_rows_fit_any_terminal(rows, width, whole, spare):
    columns = (Column(title="A", whole=whole), Column(title="B", spare=spare), Column(title="C", whole=whole))
    table = Table(columns=columns, rows=rows)
    lines = table.render(width).split("\n")
    assert len(lines) == len(rows) + 1
    assert all(text_width(line) <= width for line in lines)


def test_a_report_shows_lines_and_tables_one_below_the_other_and_nothing_else():
    report = Report(text=lambda: ("Two servers\x1b", SERVERS, "Add one: pflow mcp add"))
    assert report.render().splitlines()[0] == "Two servers\\u001b"
    assert report.render(30).splitlines()[2] == "clock      2  python -m clock…"
    assert report.render().splitlines()[-1] == "Add one: pflow mcp add"
    with pytest.raises(TypeError, match="returned a int"):
        Report(text=lambda: (3,)).render()
