"""What ends an idle worker's gap, before and after its release."""

from clusterra_scaler.planner.estimates.idle_gaps import FOLLOWED, Reuse, substitutes
from clusterra_scaler.planner.estimates.keep_alive import Gap, Stakes
from fleet_examples import CATALOGUE

SHAPE = "compute-xs"
OTHER = "memory-xs"
STAKES = Stakes.of(0.08, boot_seconds=60)
AT_MOST = 150.0


def idle(*names: str, since: float = 0.0, at_most: float = AT_MOST) -> Reuse:
    reuse = Reuse()
    for name in names:
        reuse.fell_idle(name, SHAPE, since, STAKES, at_most)
    return reuse


def gaps(reuse: Reuse) -> tuple[Gap, ...]:
    return reuse.keeping.gaps.get(SHAPE, ())


def test_work_for_an_idle_worker_ends_its_gap() -> None:
    reuse = idle("a", "b")
    reuse.wanted("a", 70)
    reuse.wanted("never-idle", 70)
    assert gaps(reuse) == (Gap(70, ended=True),)
    assert list(reuse.idle) == ["b"]


def test_a_released_worker_that_is_wanted_back_was_missed() -> None:
    reuse = idle("a")
    reuse.let_go("a")
    reuse.wanted("a", 90)
    assert gaps(reuse) == (Gap(90, ended=True),)
    assert not reuse.released


def test_a_purchase_tells_of_the_last_release() -> None:
    reuse = idle("first", at_most=0)
    reuse.fell_idle("second", SHAPE, 20, STAKES, 0)
    reuse.let_go("first")
    reuse.let_go("second")
    reuse.bought({OTHER}, 60)
    assert gaps(reuse) == ()
    reuse.bought({SHAPE, OTHER}, 60)
    assert gaps(reuse) == (Gap(40, ended=True),)
    reuse.bought({SHAPE}, 70)
    assert gaps(reuse) == (Gap(40, ended=True), Gap(70, ended=True))


def test_work_that_the_worker_had_not_taken_while_it_stood_does_not_tell() -> None:
    reuse = idle("a")
    kept = reuse.idle["a"].keep_seconds
    reuse.let_go("a")
    reuse.bought({SHAPE}, kept - 1)
    assert gaps(reuse) == ()


def test_a_release_that_nothing_follows_was_right() -> None:
    reuse = idle("a")
    reuse.let_go("a")
    reuse.follow(AT_MOST, AT_MOST)
    assert gaps(reuse) == ()
    reuse.follow(AT_MOST + 1, AT_MOST)
    assert gaps(reuse) == (Gap(AT_MOST, ended=False),)
    assert not reuse.released


def test_of_a_lost_worker_no_more_is_known_than_was_seen() -> None:
    reuse = idle("a")
    reuse.lost("a", 30)
    assert gaps(reuse) == (Gap(30, ended=False),)


def test_a_drain_that_did_not_last_changes_nothing() -> None:
    reuse = idle("a")
    before = reuse.copied()
    reuse.let_go("a")
    assert reuse != before
    reuse.back("a")
    reuse.back("a")
    assert reuse == before


def test_not_all_that_were_released_are_followed() -> None:
    names = [f"w{number}" for number in range(FOLLOWED + 5)]
    reuse = idle(*names)
    for name in names:
        reuse.let_go(name)
    assert list(reuse.released) == names[5:]
    assert len(gaps(reuse)) == 5


def test_what_could_have_served_instead() -> None:
    """The catalogue's prices go by CPUs alone: whatever has more of them costs twice as much."""
    assert substitutes(CATALOGUE)["compute-small"] == {"compute-small", "general-small", "memory-small"}
    assert substitutes(CATALOGUE)["memory-small"] == {"memory-small"}
