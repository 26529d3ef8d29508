"""What ends or censors a worker's idle gap, before and after its release."""

from clusterra_scaler.planner.estimates.idle_gaps import MAX_FOLLOWED, IdleGaps, substitutes
from clusterra_scaler.planner.estimates.keep_alive import Gap, KeepAliveCosts
from fleet_examples import CATALOGUE

SHAPE = "compute-xs"
OTHER = "memory-xs"
STAKES = KeepAliveCosts.of(0.08, boot_seconds=60)
AT_MOST = 150.0


def idle(*names: str, since: float = 0.0, at_most: float = AT_MOST) -> IdleGaps:
    idle_gaps = IdleGaps()
    for name in names:
        idle_gaps.fell_idle(name, SHAPE, since, STAKES, at_most)
    return idle_gaps


def gaps(idle_gaps: IdleGaps) -> tuple[Gap, ...]:
    return idle_gaps.keep_alive.gaps.get(SHAPE, ())


def test_work_for_an_idle_worker_ends_its_gap() -> None:
    idle_gaps = idle("a", "b")
    idle_gaps.work_arrived("a", 70)
    idle_gaps.work_arrived("never-idle", 70)
    assert gaps(idle_gaps) == (Gap(70, ended=True),)
    assert list(idle_gaps.idle) == ["b"]


def test_a_released_worker_that_is_wanted_back_ends_its_gap() -> None:
    idle_gaps = idle("a")
    idle_gaps.release("a")
    idle_gaps.work_arrived("a", 90)
    assert gaps(idle_gaps) == (Gap(90, ended=True),)
    assert not idle_gaps.released


def test_a_purchase_ends_the_gap_of_the_last_release() -> None:
    idle_gaps = idle("first", at_most=0)
    idle_gaps.fell_idle("second", SHAPE, 20, STAKES, 0)
    idle_gaps.release("first")
    idle_gaps.release("second")

    idle_gaps.bought({OTHER}, 60)
    assert gaps(idle_gaps) == ()

    idle_gaps.bought({SHAPE, OTHER}, 60)
    assert gaps(idle_gaps) == (Gap(40, ended=True),)

    idle_gaps.bought({SHAPE}, 70)
    assert gaps(idle_gaps) == (Gap(40, ended=True), Gap(70, ended=True))


def test_a_purchase_within_the_keep_alive_time_ends_no_gap() -> None:
    idle_gaps = idle("a")
    kept = idle_gaps.idle["a"].keep_seconds
    idle_gaps.release("a")
    idle_gaps.bought({SHAPE}, kept - 1)
    assert gaps(idle_gaps) == ()


def test_a_release_without_later_work_is_censored_at_the_longest_keep_alive() -> None:
    idle_gaps = idle("a")
    idle_gaps.release("a")

    idle_gaps.expire_followed(AT_MOST, AT_MOST)
    assert gaps(idle_gaps) == ()

    idle_gaps.expire_followed(AT_MOST + 1, AT_MOST)
    assert gaps(idle_gaps) == (Gap(AT_MOST, ended=False),)
    assert not idle_gaps.released


def test_the_gap_of_a_lost_worker_is_censored() -> None:
    idle_gaps = idle("a")
    idle_gaps.lost("a", 30)
    assert gaps(idle_gaps) == (Gap(30, ended=False),)


def test_a_cancelled_drain_changes_nothing() -> None:
    idle_gaps = idle("a")
    before = idle_gaps.copy()

    idle_gaps.release("a")
    assert idle_gaps != before

    idle_gaps.reinstate("a")
    idle_gaps.reinstate("a")
    assert idle_gaps == before


def test_the_number_of_followed_workers_is_bounded() -> None:
    names = [f"w{number}" for number in range(MAX_FOLLOWED + 5)]
    idle_gaps = idle(*names)
    for name in names:
        idle_gaps.release(name)
    assert list(idle_gaps.released) == names[5:]
    assert len(gaps(idle_gaps)) == 5


def test_substitutes_are_as_large_and_not_much_dearer() -> None:
    """The prices of this catalogue follow the CPUs: a shape with more of them costs twice as much."""
    assert substitutes(CATALOGUE)["compute-small"] == {"compute-small", "general-small", "memory-small"}
    assert substitutes(CATALOGUE)["memory-small"] == {"memory-small"}
