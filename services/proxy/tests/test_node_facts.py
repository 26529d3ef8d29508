from clusterra_contracts.events import NodeFact
from clusterra_proxy.slurmrestd.records import NodeRecord
from clusterra_proxy.watch.event_queue import PendingEvent
from clusterra_proxy.watch.node_facts import PublishedNodeEvents
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, node

DRAINED = node("w1", "IDLE", "DRAIN", reason="clusterra:idle", reason_changed_at=at(20))


def observe(published: PublishedNodeEvents, *nodes: NodeRecord, second: float = 100) -> list[PendingEvent[NodeFact]]:
    found = [event for record in nodes for event in published.take_unpublished(record, at(second))]
    return [*found, *published.take_removed([record.name for record in nodes], at(second))]


def kinds(events: list[PendingEvent[NodeFact]]) -> list[str]:
    return [event.fact.kind.removeprefix("node.") for event in events]


def test_the_life_of_a_node() -> None:
    published = PublishedNodeEvents()
    (registered,) = observe(published, node())

    assert (registered.fact.kind, registered.time, registered.version) == (
        "node.registered",
        at(0),
        str(int(at(0).timestamp())),
    )
    assert observe(published, node("w1", "ALLOCATED")) == []

    (drained,) = observe(published, DRAINED)
    assert (drained.fact.kind, drained.time, drained.fact.reason) == ("node.drained", at(20), "clusterra:idle")
    assert observe(published, DRAINED) == []
    assert kinds(observe(published, node())) == ["undrained"]
    assert kinds(observe(published, node("w1", "DOWN", "NOT_RESPONDING", reason_changed_at=at(30)))) == ["down"]
    assert kinds(observe(published)) == ["removed"]
    assert observe(published) == []
    assert kinds(observe(published, node(slurmd_start_time=at(50)))) == ["registered"]


def test_a_restarted_slurmd_registers_again() -> None:
    published = PublishedNodeEvents()
    observe(published, node())
    assert kinds(observe(published, node(slurmd_start_time=at(9)))) == ["registered"]


def test_a_node_without_slurmd_has_not_registered() -> None:
    published = PublishedNodeEvents()
    assert observe(published, node("w1", "UNKNOWN")) == []
    assert observe(published, node(slurmd_start_time=None)) == []
    assert observe(published) == []


STEPS = (
    (),
    (node(),),
    (DRAINED,),
    (node("w1", "DOWN", reason_changed_at=at(30)),),
    (node(slurmd_start_time=at(40)),),
    (node("w1", "ALLOCATED"), node("w2")),
)


@given(st.lists(st.sampled_from(STEPS)), st.integers(0, 20))
def test_after_a_restart_the_same_events_are_published(steps: list[tuple[NodeRecord, ...]], cut: int) -> None:
    uninterrupted, before_restart = PublishedNodeEvents(), PublishedNodeEvents()
    expected = [(event.fact, event.version) for nodes in steps for event in observe(uninterrupted, *nodes)]
    events = [event for nodes in steps[:cut] for event in observe(before_restart, *nodes)]
    after_restart = PublishedNodeEvents()
    for event in events:
        after_restart.add(event.fact.node, event.version, event.fact.kind)
    events += [event for nodes in steps[cut:] for event in observe(after_restart, *nodes)]

    # Versions are times in seconds, so two events of a kind within a second are one event.
    assert {(str(event.fact), event.version) for event in events} == {
        (str(fact), version) for fact, version in expected
    }
