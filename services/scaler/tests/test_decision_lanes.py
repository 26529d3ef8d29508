"""The size of a snapshot is a power of ten that is not below its number of records."""

from clusterra_contracts.identity import now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_scaler.decision_lanes import records, size
from fleet_examples import running
from hypothesis import given
from hypothesis import strategies as st

JOB = running("1", "w1", cpus=1)


@given(st.integers(0, 2000))
def test_size(count: int) -> None:
    snapshot = QueueSnapshot(generation=1, taken_at=now(), pending=None, running=(JOB,) * count, nodes=())

    bound = int(size(snapshot))

    assert records(snapshot) == count <= bound
    assert bound == 100 or count > bound / 10
