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
        ("w1,", ("w1",)),
        ("w1,,w2", ("w1", "", "w2")),
    ],
)
def test_expressions(expression: str, hosts: tuple[str, ...]) -> None:
    assert hostlist.expand(expression) == hosts


@pytest.mark.parametrize("expression", ["w[1-", "w[]", "w[a-b]", "w]1[", "w[1-999999999]", "w[²]", "w[2-1]", "w]"])
def test_a_malformed_expression_is_rejected(expression: str) -> None:
    with pytest.raises(ValueError):
        hostlist.expand(expression)


@pytest.mark.parametrize(
    "expression",
    ["n[1-10001]", "n[1-5000],m[1-5001]", "n[1-101][1-100]", "," * 10_001, "n" * 63 + "[9-10]", "n[1-999]" * 9],
)
def test_an_expression_out_of_bounds_is_rejected(expression: str) -> None:
    with pytest.raises(ValueError):
        hostlist.count(expression)


@pytest.mark.parametrize("expression", ["n[1-10000]", "n[1-100][1-100]", "n" * 63 + "[1-9]", "w" * 200])
def test_an_expression_at_a_bound_is_expanded(expression: str) -> None:
    assert len(hostlist.expand(expression)) == hostlist.count(expression)


_RANGES = st.lists(
    st.tuples(st.integers(0, 120), st.integers(0, 5), st.integers(1, 4)).map(
        lambda drawn: f"{drawn[0]:0{drawn[2]}}-{drawn[0] + drawn[1]:0{drawn[2]}}" if drawn[1] else str(drawn[0])
    ),
    min_size=1,
    max_size=3,
).map(lambda items: f"[{','.join(items)}]")
_NAMES = st.lists(st.one_of(st.sampled_from(["w", "rack-", "x.y", ""]), _RANGES), max_size=4).map("".join)


@given(st.lists(_NAMES, max_size=5).map(",".join))
def test_the_count_is_that_of_the_hosts(expression: str) -> None:
    assert hostlist.count(expression) == len(hostlist.expand(expression))


@given(
    st.text(alphabet="abcxyz-.", min_size=1, max_size=50), st.integers(0, 900), st.integers(0, 200), st.integers(1, 6)
)
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
