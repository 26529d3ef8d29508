"""Workers that Slurm does not know: two looks after their time, and none that could have a job by then."""

from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.queue import NodeState, PendingJobs
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import edge, group, node, observation, running, snapshot, state, target, worker

NAME = "compute-xs-1"
LIMIT = 480.0
BOOTING = worker(NAME, "booting")
RUNNING = worker(NAME)
WAITING = (group("1"),)


class Story:
    """A fleet of one worker that was started at 0, decision by decision."""

    def __init__(self, *, before: FleetState | None = None, max_workers: int = 100) -> None:
        self.state = before or state(target("compute-xs", 1), generation=1)
        self.max_workers = max_workers
        self.observation_history = ObservationHistory.after_takeover(self.state)

    def look(
        self,
        second: float,
        *workers: Worker,
        nodes: tuple[NodeState, ...] | None = (),
        pending: tuple[PendingJobs, ...] | None = (),
        decided_at: float | None = None,
    ) -> Decision:
        there = edge(*workers, heard=second, applied=self.state.generation)
        shot = snapshot(pending, (), nodes, taken=second)
        now = second if decided_at is None else decided_at
        view = observation(shot, there, now=now, max_workers=self.max_workers)
        decision = decide(view, self.state, self.observation_history)
        self.state, self.observation_history = decision.state, decision.observation_history
        return decision

    def again_at(self, second: float, taken: float, *workers: Worker) -> Decision:
        """Decide on the same snapshot once more."""
        return self.look(taken, *workers, decided_at=second)


def test_one_that_never_registers_goes_after_two_looks() -> None:
    story = Story()
    for second in (0, 200, LIMIT - 1, LIMIT + 5):
        assert not story.look(second, BOOTING).changes
    assert not story.again_at(LIMIT + 9, LIMIT + 5, BOOTING).changes, "it is the same look"
    decision = story.look(LIMIT + 10, BOOTING)
    (change,) = decision.changes
    assert (change.victims, change.replicas_after) == ((NAME,), 0)
    assert change.reason == f"{NAME} never registered within 480 s"
    (wanted,) = decision.state.targets
    assert (wanted.victims, wanted.unregistered) == ((), (NAME,))
    assert decision.fact.changes == decision.changes
    gone = story.look(LIMIT + 15)
    assert gone.changes[0].reason == f"{NAME} gone"
    assert gone.state.victims == frozenset()


def test_its_replacement_is_ordered_and_a_full_cluster_waits_only_until_it_is_gone() -> None:
    story = Story(max_workers=1)
    for second in (0, LIMIT + 1, LIMIT + 2):
        story.look(second, BOOTING, pending=WAITING)
    assert story.state.target("compute-xs") == target("compute-xs", 0).model_copy(update={"unregistered": (NAME,)})
    leaving = BOOTING.model_copy(update={"phase": "terminating"})
    assert not story.look(LIMIT + 3, leaving, pending=WAITING).changes
    replaced = story.look(LIMIT + 4, pending=WAITING)
    assert replaced.state.target("compute-xs") == target("compute-xs", 1)
    assert replaced.changes[0].reason == f"1 more for pending job 1; {NAME} gone"

    roomy = Story(max_workers=2)
    roomy.look(0, BOOTING, pending=WAITING)
    assert roomy.look(LIMIT + 1, BOOTING, pending=WAITING).changes[0].reason == "1 more for pending job 1"
    named = roomy.look(LIMIT + 2, BOOTING, pending=WAITING)
    assert named.changes[0].replicas_after == 1
    assert named.changes[0].reason == f"{NAME} never registered within 480 s"


def test_a_look_that_failed_is_none() -> None:
    story = Story()
    story.look(0, BOOTING)
    for second, lists in enumerate(({"nodes": None}, {"pending": None}), start=int(LIMIT) + 1):
        assert not story.look(second, BOOTING, **lists).changes
    assert not story.look(LIMIT + 10, BOOTING).changes, "the first after its time"
    assert not story.look(LIMIT + 11, BOOTING, nodes=None).changes
    assert story.look(LIMIT + 12, BOOTING).changes


def test_its_time_begins_with_the_first_look_without_a_record() -> None:
    story = Story()
    assert not story.look(5000, BOOTING).changes
    assert not story.look(5001, BOOTING).changes
    assert not story.look(5000 + LIMIT, BOOTING).changes
    assert story.look(5001 + LIMIT, BOOTING).changes


def test_one_that_serves_gets_its_time_again_and_goes_by_a_fresh_look_only() -> None:
    story = Story()
    for second in (0, LIMIT - 1):
        story.look(second, BOOTING)
    begun = LIMIT + 5
    for second in (begun, begun + 1, begun + LIMIT):
        assert not story.look(second, RUNNING).changes
    assert not story.look(begun + LIMIT + 1, RUNNING, decided_at=begun + LIMIT + 17).changes, "it is too old"
    decision = story.look(begun + LIMIT + 20, RUNNING)
    assert decision.state.target("compute-xs") == target("compute-xs", 0, NAME)
    assert decision.changes[0].reason == f"{NAME} served for 480 s unknown to Slurm"


def test_one_that_serves_now_and_then_goes_while_it_does_not() -> None:
    story = Story()
    story.look(0, BOOTING)
    for second in range(100, int(LIMIT) + 200, 100):
        assert not story.look(second, RUNNING).changes
        story.look(second + 50, BOOTING)
    assert story.look(LIMIT + 260, BOOTING).state.victims == {NAME}


def test_one_that_registers_at_the_last_moment_stays() -> None:
    story = Story()
    for second in (0, LIMIT + 1):
        story.look(second, BOOTING)
    record = node(NAME, idle_for=None)
    assert not story.look(LIMIT + 2, BOOTING, nodes=(record,), pending=WAITING).changes
    assert not story.look(LIMIT + 3, RUNNING, nodes=(record,)).changes


def test_one_that_is_named_and_registers_is_taken_back() -> None:
    for alive in (RUNNING, BOOTING):
        story = Story()
        for second in (0, LIMIT + 1, LIMIT + 2):
            story.look(second, BOOTING, pending=WAITING)
        assert story.state.victims == {NAME}
        shape = story.state.target("compute-xs")
        assert shape is not None
        assert shape.replicas == 1, "another was ordered"
        back = story.look(LIMIT + 3, alive, nodes=(node(NAME, idle_for=None),), pending=WAITING)
        assert back.state.victims == frozenset()
        assert back.state.target("compute-xs") == target("compute-xs", 1)
        reason = f"{NAME} there after all; 1 ordered or lost and not needed any more"
        assert back.changes[0].reason == reason
        assert back.observation_history.registrations.latency.p99_seconds() == {"compute-xs": LIMIT + 3}


def test_a_shape_known_to_boot_slowly_is_spared_and_counts_as_coming() -> None:
    story = Story(before=state(target("compute-xs", 1), generation=1, boot_p99_seconds={"compute-xs": 400.0}))
    for second in (0, LIMIT + 1, LIMIT + 2, 599):
        assert not story.look(second, BOOTING, pending=WAITING).changes
    story.look(601, BOOTING, pending=WAITING)
    assert story.look(602, BOOTING, pending=WAITING).state.victims == {NAME}


def test_what_was_learned_is_recorded_with_the_next_decision() -> None:
    story = Story()
    story.look(0, BOOTING)
    learned = story.look(90, RUNNING, nodes=(node(NAME, idle_for=None),), pending=WAITING)
    assert not learned.changes
    assert learned.state.boot_p99_seconds == {}
    more = story.look(91, RUNNING, nodes=(node(NAME, idle_for=None),), pending=(group("1", "2", "3", cpus=2),))
    assert more.changes
    assert more.state.boot_p99_seconds == {"compute-xs": 90.0}


def test_a_record_that_was_lost_and_found_is_no_boot() -> None:
    story = Story()
    story.look(5000, RUNNING)
    assert story.look(5010, RUNNING, nodes=(node(NAME),)).observation_history.registrations.latency.p99_seconds() == {}


def test_one_whose_slurmd_does_not_answer_is_drained_instead() -> None:
    story = Story()
    for second in (0, LIMIT + 1, LIMIT + 2):
        assert not story.look(second, BOOTING, nodes=(node(NAME, "DOWN", idle_for=None),)).changes
    assert not story.state.victims


def test_one_that_a_running_job_names_stays() -> None:
    story = Story()
    for second in (0, LIMIT + 1):
        story.look(second, BOOTING)
    shot = snapshot((), (running("1", NAME),), (), taken=LIMIT + 2)
    view = observation(shot, edge(BOOTING, heard=LIMIT + 2), now=LIMIT + 2)
    assert not decide(view, story.state, story.observation_history).changes
