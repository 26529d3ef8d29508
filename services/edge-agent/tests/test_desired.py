"""Which desired states are accepted, in any order and across restarts of the agent."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from clusterra_contracts.scale import DesiredState
from clusterra_edge_agent.control.desired import LatestDesired
from clusterra_edge_agent.substrate.state_files import StateUnreadable
from hypothesis import given
from hypothesis import strategies as st


def state(fence: int, generation: int) -> DesiredState:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return DesiredState(generation=generation, fence=fence, snapshot_generation=0, decided_at=moment, targets=())


offers = st.tuples(st.integers(0, 3), st.integers(1, 5))
restart = st.none()


@given(st.lists(offers | restart, max_size=20))
def test_the_accepted_order_never_decreases_even_across_restarts(steps: list[tuple[int, int] | None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        latest, highest = LatestDesired(Path(folder)), (0, 0)
        for step in steps:
            if step is None:
                latest = LatestDesired(Path(folder))
                continue
            offered = state(*step)
            assert latest.offer(offered) == (step >= highest)
            if step >= highest:
                highest = step
                assert latest.current is offered
            elif latest.current is not None:
                assert latest.current.order == highest


def test_the_same_state_is_accepted_again_after_a_restart(tmp_path: Path) -> None:
    assert LatestDesired(tmp_path).offer(state(7, 3))
    restarted = LatestDesired(tmp_path)
    assert restarted.current is None
    assert restarted.offer(state(7, 3))


def test_a_lower_fence_is_ignored_whatever_its_generation(tmp_path: Path) -> None:
    latest = LatestDesired(tmp_path)
    assert latest.offer(state(7, 3))
    assert not latest.offer(state(6, 1000))
    assert latest.offer(state(8, 1))


def test_a_state_whose_order_cannot_be_stored_is_not_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    latest = LatestDesired(folder)

    folder.rmdir()

    with pytest.raises(FileNotFoundError):
        latest.offer(state(1, 1))
    assert latest.current is None


def test_an_unreadable_order_stops_the_agent(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text("{")
    with pytest.raises(StateUnreadable, match=r"order\.json"):
        LatestDesired(tmp_path)
