"""A wrong value of a job is told by its field, whichever way it came."""

from typing import Any

import pytest
from clusterra_sbatch import node_counts
from clusterra_sbatch.job_values import check_values
from clusterra_sbatch.script_job import ScriptJob
from hypothesis import given
from hypothesis import strategies as st


def described(**fields: Any) -> ScriptJob:
    """A job with these fields."""
    return ScriptJob.model_validate({"environment": ("A=b",)} | fields)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"nodes": "4-1"}, "nodes: the most nodes are fewer"),
        ({"nodes": "some"}, "nodes: must be a number of nodes"),
        ({"nodes": "2:3"}, "nodes: must be a list"),
        ({"distribution": "diagonal"}, "distribution: must be a layout"),
        ({"kill_warning_signal": "NOSIG"}, "kill_warning_signal: must be a number"),
        ({"shared": ("sometimes",)}, "shared: must be one of"),
        ({"open_mode": ("PREPEND",)}, "open_mode: must be one of append, truncate"),
        ({"begin_time": 20, "deadline": 10}, "deadline: it is before begin_time"),
        ({"time_minimum": 20, "time_limit": 10}, "time_minimum: it is longer"),
        ({"tres_per_task": "gres/gpu:1"}, "tres_per_task: GPUs for each task"),
        ({"tres_per_socket": "gres/gpu:1"}, "tres_per_socket: GPUs for each socket"),
    ],
)
def test_a_value_that_no_job_can_have_names_its_field(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_values(described(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"nodes": "2-4", "distribution": "plane=4", "kill_warning_signal": "USR1", "shared": ("none",)},
        {"open_mode": ("APPEND",), "time_minimum": 5, "time_limit": 5, "begin_time": 10, "deadline": 10},
        {"tres_per_task": "gres/gpu:1", "tasks": 2},
        {"tres_per_task": "gres/gpu:1", "tres_per_job": "gres/gpu:2"},
        {"tres_per_socket": "gres/gpu:1", "sockets_per_node": 1},
    ],
)
def test_a_job_with_right_values_passes(fields: dict[str, Any]) -> None:
    check_values(described(**fields))


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_a_range_of_nodes_is_read_back(fewest: int, more: int) -> None:
    count = node_counts.parse(f"{fewest}-{fewest + more}")

    assert (count.fewest, count.most) == (fewest, fewest + more)
    assert node_counts.parse(count.text) == count


@given(st.lists(st.integers(1, 16_000), min_size=2, max_size=5))
def test_a_list_of_nodes_has_its_least_and_its_largest(numbers: list[int]) -> None:
    count = node_counts.parse(",".join(map(str, numbers)))

    assert (count.fewest, count.most) == (min(numbers), max(numbers))
