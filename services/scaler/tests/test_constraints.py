import pytest
from clusterra_scaler.planner.constraints import UnreadableConstraint, parse
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
def test_constraint(expression: str, allowed: bool) -> None:
    assert parse(expression)(FEATURES) is allowed


@pytest.mark.parametrize("expression", ["a*2", "[a*2&b*1]", "a&", "&a", "(a", "a)", "a b", "a||b", "a!b", "[a)"])
def test_what_cannot_be_asked_of_one_node_is_refused(expression: str) -> None:
    with pytest.raises(UnreadableConstraint):
        parse(expression)


@given(st.text(alphabet="abc-&|,()[]*! ", max_size=20))
def test_any_text_is_read_or_refused(expression: str) -> None:
    try:
        constraint = parse(expression)
    except UnreadableConstraint:
        return
    assert constraint(("a", "b")) in (True, False)
