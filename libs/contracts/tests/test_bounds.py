"""Every stream and bucket is bounded, and together they fit into the servers of the smallest installation."""

import pytest
from clusterra_contracts.bus.topology import (
    BOUNDS,
    BUCKETS,
    MAX_PAYLOAD_BYTES,
    MIB,
    STREAMS,
    Bounds,
    Bucket,
    Stream,
    Unbounded,
    storage_bytes,
)

GIB = 1024 * MIB


def test_a_stream_without_bounds_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="bounds"):
        Stream("NEW", ("new.>",), "without bounds")  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="bytes"):
        Bucket("new", "without bounds")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "unbounded",
    [
        {"bytes": -1},
        {"bytes": 0},
        {"messages": -1},
        {"messages_per_subject": -1},
        {"message_bytes": -1},
        {"message_bytes": MAX_PAYLOAD_BYTES + 1},
        {"bytes": 10, "message_bytes": 11},
        {"refuse_per_subject": True, "discard": "old"},
    ],
)
def test_a_bound_of_each_kind_is_needed(unbounded: dict[str, object]) -> None:
    bounded: dict[str, object] = {"bytes": MIB, "messages": 10, "messages_per_subject": 1, "discard": "new"}

    with pytest.raises(Unbounded):
        Bounds(**(bounded | unbounded))  # type: ignore[arg-type]


def test_every_stream_and_bucket_has_bounds() -> None:
    names = {stream.name for stream in STREAMS} | {f"KV_{bucket.name}" for bucket in BUCKETS}

    assert set(BOUNDS) == names


def test_the_streams_fit_into_a_server_of_the_smallest_installation() -> None:
    assert storage_bytes() < 4 * GIB
    assert storage_bytes(8) == 8 * storage_bytes() < 32 * GIB


def test_last_values_are_never_discarded_for_those_of_another_cluster() -> None:
    last_values = [name for name, bounds in BOUNDS.items() if bounds.messages_per_subject == 1]

    assert {"JOB", "SCALE", "HB"} <= set(last_values)
    assert all(BOUNDS[name].discard == "new" for name in last_values)
