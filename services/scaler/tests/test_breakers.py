"""Shapes that cannot be had: what opens a breaker, what is bought instead, and how the shape is tried again."""

from dataclasses import replace

from clusterra_contracts.heartbeat import Stuck, StuckCause, Worker
from clusterra_contracts.queue import NodeState, PendingJobs
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.breakers import LONGEST_PAUSE_SECONDS, Breaker, Failure, breakers_after
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import CATALOGUE, at, binding, edge, group, node, observation, snapshot, state, target, worker
from hypothesis import given
from hypothesis import strategies as st

ONE = (group("1"),)
NO_CAPACITY = "did not start: no capacity for compute-xs since 12:00 UTC"


class Story:
    """A fleet that was ordered at 0, decision by decision."""

    def __init__(self, before: FleetState, *, sees_machines: bool = True) -> None:
        self.state = before
        self.sees_machines = sees_machines
        self.observation_history = ObservationHistory.after_takeover(before)

    def look(
        self,
        second: float,
        *workers: Worker,
        stuck: int | None = None,
        cause: StuckCause = "insufficient_capacity",
        pending: tuple[PendingJobs, ...] = ONE,
        nodes: tuple[NodeState, ...] = (),
        shape: str = "compute-xs",
    ) -> Decision:
        """`stuck`: how many workers of the shape are; None: none is."""
        told = () if stuck is None else (Stuck(shape=shape, cause=cause, workers=stuck, message="no machine"),)
        there = edge(
            *workers, heard=second, applied=self.state.generation, stuck=told, sees_machines=self.sees_machines
        )
        view = observation(
            snapshot(pending, (), nodes, taken=second), replace(there, generation=int(second)), now=second
        )
        decision = decide(view, self.state, self.observation_history)
        self.state, self.observation_history = decision.state, decision.observation_history
        return decision

    @property
    def wanted(self) -> dict[str, int]:
        return {target.shape: target.replicas for target in self.state.targets if target.replicas}

    @property
    def breaker(self) -> Breaker:
        (breaker,) = self.state.breakers
        return breaker


def waiting(*names: str, started: float = 0.0) -> list[Worker]:
    return [worker(name, "booting", started=started) for name in names]


def ordered(count: int = 1, shape: str = "compute-xs") -> FleetState:
    return state(target(shape, count), generation=1)


def opened(pending: tuple[PendingJobs, ...] = ONE) -> Story:
    """A story in which compute-xs has failed at 35, and its worker is gone."""
    story = Story(ordered())
    for second in (25, 30, 35):
        story.look(second, *waiting("compute-xs-1"), stuck=1, pending=pending)
    story.look(36, pending=pending)
    return story


def test_a_worker_that_cannot_be_had_is_given_back_for_another_size() -> None:
    story = Story(ordered())
    for second in (1, 15, 21, 30):
        assert not story.look(second, *waiting("compute-xs-1"), stuck=1).changes
    decision = story.look(31, *waiting("compute-xs-1"), stuck=1)
    assert story.wanted == {"compute-small": 1}
    assert story.state.target("compute-xs") == target("compute-xs", 0).model_copy(
        update={"unregistered": ("compute-xs-1",)}
    )
    assert [change.reason for change in decision.changes] == [
        f"compute-xs-1 {NO_CAPACITY}",
        "1 more for pending job 1; no capacity for compute-xs since 12:00 UTC",
    ]
    assert not story.look(32, *waiting("compute-xs-1"), stuck=1).changes, "it was given back once"


def test_nothing_opens_by_what_is_over_at_the_next_heartbeat() -> None:
    story = Story(ordered())
    for second in range(25, 95, 10):
        assert not story.look(second, *waiting("compute-xs-1"), stuck=1).changes
        assert not story.look(second + 5, *waiting("compute-xs-1")).changes
    assert not story.state.breakers


def test_nothing_opens_while_machines_may_only_take_their_time() -> None:
    story = Story(ordered(9))
    for second in range(5, 60, 5):
        came = waiting(*(f"compute-xs-{n}" for n in range(1, 9)), started=0)
        young = waiting("compute-xs-9", started=second - 5)
        story.look(second, *came, *young, stuck=1, pending=(group(*"123456789", cpus=2),))
    assert not story.state.breakers


def test_where_machines_are_not_seen_a_usual_boot_is_waited_for() -> None:
    known = ordered().model_copy(update={"boot_p99_seconds": {"compute-xs": 100.0}})
    story = Story(known, sees_machines=False)
    for second in (20, 60, 120, 149):
        assert not story.look(second, *waiting("compute-xs-1"), stuck=1).changes
    story.look(151, *waiting("compute-xs-1"), stuck=1)
    story.look(161, *waiting("compute-xs-1"), stuck=1)
    assert story.wanted == {"compute-small": 1}


def test_only_those_that_wait_are_given_back() -> None:
    story = Story(ordered(3))
    three = (group("1", "2", "3", cpus=2),)
    for second in (25, 36):
        story.look(second, *waiting("compute-xs-1", "compute-xs-2", "compute-xs-3"), stuck=1, pending=three)
    assert story.wanted == {"compute-xs": 2, "compute-small": 1}


def test_a_quota_cancels_what_could_not_be_made() -> None:
    story = Story(ordered(2))
    for second in (25, 36):
        decision = story.look(second, stuck=0, cause="quota", pending=(group("1", "2", cpus=2),))
    assert story.wanted == {"compute-small": 1}
    assert decision.changes[0].reason == (
        "2 ordered or lost and not needed any more; a quota leaves no room for compute-xs since 12:00 UTC"
    )


def test_what_is_wrong_with_every_shape_opens_none() -> None:
    for cause in ("image_pull", "other"):
        story = Story(ordered())
        for second in (25, 36, 60):
            assert not story.look(second, *waiting("compute-xs-1"), stuck=1, cause=cause).changes


def test_a_job_of_several_nodes_moves_whole() -> None:
    story = Story(ordered(3))
    gang = (group("1", cpus=6, nodes=3, memory_per_node_mib=1024, exclusive=True),)
    for second in (25, 36):
        story.look(second, *waiting("compute-xs-1", "compute-xs-2", "compute-xs-3"), stuck=3, pending=gang)
    assert story.wanted == {"compute-small": 3}


def test_one_worker_is_tried_after_a_pause_that_doubles() -> None:
    story = opened()
    failed_at, pause = 35.0, 60.0
    few, many = ((group(*map(str, range(1, count)), cpus=2),) for count in (10, 20))
    for _ in range(7):
        due = failed_at + pause
        assert story.breaker.probe_at == at(due)
        story.look(due - 1, pending=few)
        story.look(due, pending=few)
        assert "compute-xs" not in story.wanted, "all is ordered that is needed"
        story.look(due, pending=many)
        assert story.wanted["compute-xs"] == 1
        tried = waiting("compute-xs-1", started=due)
        story.look(due + 21, *tried, stuck=1, pending=many)
        story.look(due + 30, *tried, stuck=1, pending=many)
        assert story.wanted["compute-xs"] == 1
        story.look(due + 31, *tried, stuck=1, pending=many)
        assert "compute-xs" not in story.wanted
        failed_at, pause = due + 31, min(2 * pause, LONGEST_PAUSE_SECONDS)
    assert story.breaker.opened_at == at(35)


def test_nothing_is_tried_without_a_job_that_wants_it() -> None:
    story = opened()
    story.look(100, *waiting("compute-small-1", started=40))
    story.look(200, pending=(group("2", memory_per_node_mib=9 * 1024),))
    assert "compute-xs" not in story.wanted


def test_a_worker_that_comes_closes_it_and_the_others_stay() -> None:
    story = opened()
    story.look(97, *waiting("compute-small-1", started=37))
    assert story.wanted == {"compute-small": 1}, "what comes has room, so nothing is tried"
    four = group("1", "2", "3", "4", cpus=2)
    story.look(98, *waiting("compute-small-1", started=37), pending=(four,))
    assert story.wanted == {"compute-small": 2, "compute-xs": 1}
    came = node("compute-xs-1", idle_for=None).model_copy(update={"registered_at": at(130)})
    there = (*waiting("compute-small-1", "compute-small-2", started=99), worker("compute-xs-1", started=99))
    decision = story.look(131, *there, nodes=(came,), pending=(four,))
    assert story.breaker.closed_at == at(131)
    assert not decision.changes, "what was bought instead is not bought again"
    story.look(140, *there, nodes=(came,), pending=(four, group("5", "6", cpus=2)))
    assert story.wanted == {"compute-small": 2, "compute-xs": 2}


def test_where_every_shape_is_out_the_order_stays() -> None:
    only = "compute-xs|compute-small"
    job = (group("1", features=only),)
    story = Story(ordered())
    for second in (25, 36):
        story.look(second, *waiting("compute-xs-1"), stuck=1, pending=job)
    assert story.wanted == {"compute-small": 1}
    there = waiting("compute-small-1", started=37)
    for second in (58, 69):
        decision = story.look(second, *there, stuck=1, shape="compute-small", pending=job)
    assert len(story.state.breakers) == 2
    assert not decision.changes
    assert decision.plan is not None
    assert [each.reason for each in decision.plan.unmet] == [
        "no capacity for compute-small since 12:01 UTC, no capacity for compute-xs since 12:00 UTC"
    ]
    # The other is tried beside it, and goes again.
    story.look(97, *there, stuck=1, shape="compute-small", pending=job)
    assert story.wanted == {"compute-small": 1, "compute-xs": 1}


def test_a_job_that_comes_when_every_shape_is_out_has_one_order() -> None:
    story = opened((group("1", features="compute-xs"),))
    assert story.wanted == {"compute-xs": 1}
    jobs = (group("1", "2", "3", features="compute-xs", cpus=2),)
    story.look(40, pending=jobs)
    story.look(41, *waiting("compute-xs-2", started=40), pending=jobs)
    assert story.wanted == {"compute-xs": 1}


def test_two_that_never_register_open_it_and_one_does_not() -> None:
    def look(second: float, count: int) -> Story:
        story = Story(ordered(count))
        names = [f"compute-xs-{n}" for n in range(count)]
        jobs = (group(*map(str, range(1, count + 1)), cpus=2),)
        story.look(1, *waiting(*names), pending=jobs)
        story.look(second, *waiting(*names), pending=jobs)
        return story

    assert look(481, 1).wanted == {"compute-xs": 2}
    assert look(481, 2).wanted == {"compute-xs": 2, "compute-small": 1}
    assert look(481, 2).breaker.words == "workers of compute-xs have never registered since 12:08 UTC"
    assert not look(479, 2).state.breakers


def test_a_takeover_keeps_the_pause_and_forgets_only_what_it_was_about_to_see() -> None:
    story = opened()
    taken_over = Story(FleetState.model_validate_json(story.state.taken_over(2, at(40)).model_dump_json()))
    assert taken_over.breaker == story.breaker
    taken_over.look(41, pending=(group("1", "2", "3", cpus=2),))
    assert "compute-xs" not in taken_over.wanted


def test_one_that_serves_after_it_was_given_back_is_taken_back() -> None:
    story = Story(ordered())
    for second in (25, 36):
        story.look(second, *waiting("compute-xs-1"), stuck=1)
    came = node("compute-xs-1", idle_for=None).model_copy(update={"registered_at": at(40)})
    story.look(41, worker("compute-xs-1"), nodes=(came,))
    assert story.wanted == {"compute-xs": 1}
    assert story.state.victims == frozenset()


def test_a_list_that_could_not_be_read_opens_and_gives_back_nothing() -> None:
    story = Story(ordered())
    story.look(25, *waiting("compute-xs-1"), stuck=1)
    there = edge(*waiting("compute-xs-1"), heard=36, applied=1, sees_machines=True)
    for shot in (snapshot(None, taken=36), snapshot(ONE, None, taken=36), snapshot(ONE, (), None, taken=36)):
        decision = decide(observation(shot, there, now=36), story.state, story.observation_history)
        assert not decision.changes
        assert not decision.state.breakers


steps = st.lists(st.tuples(st.floats(1, 4000), st.booleans(), st.booleans()), max_size=30)


@given(steps)
def test_pauses_grow_to_half_an_hour_and_start_anew_after_as_long_without_trouble(
    history: list[tuple[float, bool, bool]],
) -> None:
    breakers: tuple[Breaker, ...] = ()
    second, failed = 0.0, []
    for more, fails, starts in history:
        second += more
        before = breakers
        failing = {"compute-xs": Failure("no capacity for compute-xs")} if fails else {}
        now = at(second)
        breakers = breakers_after(before, failing, {"compute-xs"} if starts else (), ["compute-xs"], now)
        assert breakers_after(breakers, failing, {"compute-xs"} if starts else (), ["compute-xs"], now) == breakers
        if breakers and breakers[0].failed_at == now:
            failed.append(now)
            assert not before or not before[0].pauses(now), "a failure in a pause says nothing new"
            pause = (breakers[0].probe_at - now).total_seconds()
            assert pause == min(60.0 * 2 ** (breakers[0].failures - 1), 1800.0)
            assert breakers[0].failures == (before[0].failures + 1 if before else 1)
        elif before and not breakers:
            closed_at = before[0].closed_at
            assert closed_at is not None
            assert (now - closed_at).total_seconds() >= LONGEST_PAUSE_SECONDS


def test_the_record_holds_no_more_than_the_catalogue() -> None:
    names = [shape.name for shape in CATALOGUE.shapes]
    failing = {name: Failure("no capacity", "x" * 5000) for name in (*names, "a shape of yesterday")}
    breakers = breakers_after((), failing, (), names, at(0))
    assert len(breakers) == len(names)
    assert all(len(breaker.message) <= 200 for breaker in breakers)
    assert breakers_after(breakers, {}, (), names[:3], at(1)) == breakers[:3]
    assert binding().catalogue == CATALOGUE
