import pytest
from clusterra_proxy.slurmrestd.notation import hostlist
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("expression", "hosts"),
    [
        ("", ()),
        ("None assigned", ()),
        ("w1", ("w1",)),
        ("w1,w2", ("w1", "w2")),
        ("w[1-3]", ("w1", "w2", "w3")),
        ("w[08-11,20],login", ("w08", "w09", "w10", "w11", "w20", "login")),
        ("rack[1-2]-node[1,3]", ("rack1-node1", "rack1-node3", "rack2-node1", "rack2-node3")),
        ("general-large-7f", ("general-large-7f",)),
    ],
)
def test_expressions(expression: str, hosts: tuple[str, ...]) -> None:
    assert hostlist.expand(expression) == hosts


@pytest.mark.parametrize("expression", ["w[1-", "w[]", "w[a-b]", "w]1[", "w[1-999999999]", "w[²]"])
def test_a_malformed_expression_is_rejected(expression: str) -> None:
    with pytest.raises(ValueError):
        hostlist.expand(expression)


@given(st.text(alphabet="abcxyz-.", min_size=1), st.integers(0, 900), st.integers(0, 200), st.integers(1, 6))
def test_a_range_expands_to_every_number_with_its_padding(prefix: str, first: int, more: int, width: int) -> None:
    last = first + more
    hosts = hostlist.expand(f"{prefix}[{first:0{width}}-{last:0{width}}]")
    assert hosts == tuple(f"{prefix}{number:0{width}}" for number in range(first, last + 1))


@given(st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True), min_size=1))
def test_plain_names_expand_to_themselves(names: list[str]) -> None:
    assert hostlist.expand(",".join(names)) == tuple(names)


@given(st.text())
def test_any_text_is_expanded_or_rejected(expression: str) -> None:
    try:
        hosts = hostlist.expand(expression)
    except ValueError:
        return
    assert len(hosts) <= hostlist.MAX_HOSTS
