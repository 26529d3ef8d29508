import pytest
from clusterra_proxy.slurmrestd.notation import array_tasks
from hypothesis import given
from hypothesis import strategies as st

TASKS = st.frozensets(st.integers(0, 300), max_size=60).map(lambda tasks: tuple(sorted(tasks)))


@pytest.mark.parametrize(
    ("expression", "tasks"),
    [
        ("", ()),
        ("7", (7,)),
        ("0-2,4", (0, 1, 2, 4)),
        ("0-9:3%2", (0, 3, 6, 9)),
        ("1,3,...", (1, 3)),
    ],
)
def test_expressions(expression: str, tasks: tuple[int, ...]) -> None:
    assert array_tasks.expand(expression) == tasks


@given(TASKS)
def test_formatted_tasks_expand_to_the_same_tasks(tasks: tuple[int, ...]) -> None:
    assert array_tasks.expand(array_tasks.format_tasks(tasks)) == tasks


@given(TASKS)
def test_a_bitmap_expands_to_the_same_tasks(tasks: tuple[int, ...]) -> None:
    bitmap = hex(sum(1 << task for task in tasks))
    assert array_tasks.expand(array_tasks.from_bitmap(bitmap)) == tasks


@given(TASKS, st.integers(0, 310))
def test_an_expression_contains_what_it_expands_to(tasks: tuple[int, ...], task: int) -> None:
    expression = array_tasks.format_tasks(tasks)

    assert array_tasks.contains(expression, task) == (task in tasks)
    assert array_tasks.count(expression) == len(tasks)


@pytest.mark.parametrize("expression", ["0-3999999", ",".join(["0-9"] * 100_001), "0-1000000"])
def test_an_expression_of_too_many_tasks_is_not_expanded(expression: str) -> None:
    with pytest.raises(ValueError, match="more than 1000000 tasks"):
        array_tasks.expand(expression)


@pytest.mark.parametrize(
    ("bitmap", "expression"),
    [
        ("0x" + "f" * 1_000_000, "..."),
        ("0x" + "5" * 1_000_000, ",".join(str(2 * task) for task in range(1000)) + ",..."),
    ],
)
def test_a_large_bitmap_is_truncated(bitmap: str, expression: str) -> None:
    assert array_tasks.from_bitmap(bitmap) == expression


def test_text_that_is_not_a_bitmap_is_unchanged() -> None:
    assert array_tasks.from_bitmap("0-2,4") == "0-2,4"
    assert array_tasks.from_bitmap("0x") == "0x"


RANGE = st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 12)).map(
    lambda drawn: f"{min(drawn[:2])}-{max(drawn[:2])}:{drawn[2]}"
)


@given(st.lists(RANGE, max_size=4).map(",".join), st.lists(RANGE, max_size=4).map(",".join))
def test_expressions_overlap_where_their_tasks_do(one: str, other: str) -> None:
    common = set(array_tasks.expand(one)) & set(array_tasks.expand(other))

    assert array_tasks.overlap(one, other) == bool(common)
