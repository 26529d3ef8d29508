"""Slurm's constraint expressions, for one node and for all nodes of a job."""

import pytest
from clusterra_contracts.constraints import UnreadableConstraint, layouts, parse
from hypothesis import given
from hypothesis import strategies as st

FEATURES = ("general", "general-small")


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("", True),
        ("  ", True),
        ("general", True),
        ("compute", False),
        ("general&general-small", True),
        ("general,general-small", True),
        ("general&general-large", False),
        ("compute|general", True),
        ("compute | general-large", False),
        ("(compute|general)&general-small", True),
        ("[compute|general]", True),
        ("compute&memory|general", True),
        ("general|compute&memory", False),
    ],
)
def test_an_expression_allows_a_node_by_its_features(expression: str, allowed: bool) -> None:
    assert parse(expression)(FEATURES) is allowed


@pytest.mark.parametrize(
    ("expression", "nodes", "expected"),
    [
        ("", 3, [[("", 3)]]),
        ("a&b", 3, [[("a&b", 3)]]),
        ("a|b", 2, [[("a|b", 2)]]),
        ("[a|b]", 1, [[("[a|b]", 1)]]),
        ("[a|b]", 2, [[("a", 2)], [("b", 2)]]),
        ("[(a&b)|c]", 2, [[("a&b", 2)], [("c", 2)]]),
        ("a*2", 1, [[("a", 2)]]),
        ("a*2", 3, [[("a", 2), ("", 1)]]),
        ("[a*2]", 3, [[("a", 2), ("(a)", 1)]]),
        ("[a*2&b*1]", 1, [[("a", 2), ("b", 1)]]),
        ("[a*2&b*1]", 5, [[("a", 2), ("b", 1), ("(a|b)", 2)]]),
        ("[(a&b)*4&c*1]", 5, [[("a&b", 4), ("c", 1)]]),
        ("a*1&b", 2, [[("a&b", 1), ("b", 1)]]),
    ],
)
def test_an_expression_is_split_into_layouts(
    expression: str, nodes: int, expected: list[list[tuple[str, int]]]
) -> None:
    assert [list(layout) for layout in layouts(expression, nodes)] == expected


@pytest.mark.parametrize("expression", ["a*", "a*b", "a*0", "(a*2|b)&c", "a|b*2", "[a|b", "(a*2)*3"])
def test_unreadable_layouts_are_rejected(expression: str) -> None:
    with pytest.raises(UnreadableConstraint):
        layouts(expression, 2)


@pytest.mark.parametrize("expression", ["a*2", "[a*2&b*1]", "a&", "&a", "(a", "a)", "a b", "a||b", "a!b", "[a)"])
def test_expressions_that_are_no_constraint_on_one_node_are_rejected(expression: str) -> None:
    with pytest.raises(UnreadableConstraint):
        parse(expression)


@given(st.text(alphabet="abc-&|,()[]*! ", max_size=20))
def test_any_text_is_parsed_or_rejected(expression: str) -> None:
    try:
        constraint = parse(expression)
    except UnreadableConstraint:
        return
    assert constraint(("a", "b")) in (True, False)


@given(st.text(alphabet="abc12&|()[]*", max_size=20), st.integers(1, 9))
def test_every_layout_has_valid_constraints_for_enough_nodes(expression: str, nodes: int) -> None:
    try:
        found = layouts(expression, nodes)
    except UnreadableConstraint:
        return

    assert found
    for layout in found:
        assert sum(count for _, count in layout) >= nodes
        for constraint, count in layout:
            parse(constraint)
            assert count > 0
