"""Counts of jobs are those of the list with the same filters."""

from types import SimpleNamespace
from typing import cast

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm import ListJobs, Viewer
from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.query import _count, _select_page
from clusterra_proxy.slurmrestd.records import JobRecord
from hypothesis import given
from hypothesis import strategies as st
from job_records import job

STATES = ("PENDING", "RUNNING", "COMPLETED", "FAILED")
CLUSTER = cast("Cluster", SimpleNamespace(owner_name=lambda record: f"user{record.user_id}"))


@st.composite
def records(draw: st.DrawFn) -> tuple[JobRecord, ...]:
    numbers = draw(st.lists(st.integers(1, 50), unique=True, max_size=20))
    return tuple(
        job(
            number,
            draw(st.sampled_from(STATES)),
            name=draw(st.sampled_from(["Align", "realign", "fit"])),
            user_id=draw(st.sampled_from([5001, 5002])),
            submit_time=draw(st.sampled_from([None, job().submit_time])),
        )
        for number in numbers
    )


@given(
    records(),
    st.sampled_from([None, "align", "7", "x"]),
    st.sampled_from([None, "user5001", "user5002"]),
    st.booleans(),
)
def test_the_counts_are_the_totals_of_lists_of_each_state(
    given_records: tuple[JobRecord, ...], search: str | None, user: str | None, admin: bool
) -> None:
    viewer = Viewer(user=SlurmUser(name="user5001", uid=5001, gid=5001), admin=admin)
    asked = ListJobs(viewer=viewer, search=search, user=user)

    counts = _count(CLUSTER, given_records, asked)

    of_state = {
        state: _select_page(CLUSTER, given_records, asked.model_copy(update={"states": (state,)}))[1]
        for state in STATES
    }
    assert counts == {state: total for state, total in of_state.items() if total}
    assert sum(counts.values()) == _select_page(CLUSTER, given_records, asked)[1]
