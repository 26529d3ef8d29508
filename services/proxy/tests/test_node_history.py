from clusterra_proxy.slurmrestd.records import NodeRecord
from clusterra_proxy.watch.node_facts import NodeHistory, NodeOccurrence
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, node

DRAINED = node("w1", "IDLE", "DRAIN", reason="clusterra:idle", reason_changed_at=at(20))


def look(history: NodeHistory, *nodes: NodeRecord, second: float = 100) -> list[NodeOccurrence]:
    found = [occurrence for record in nodes for occurrence in history.news(record, at(second))]
    return [*found, *history.removed([record.name for record in nodes], at(second))]


def kinds(occurrences: list[NodeOccurrence]) -> list[str]:
    return [occurrence.fact.kind.removeprefix("node.") for occurrence in occurrences]


def test_the_life_of_a_node() -> None:
    history = NodeHistory()
    (registered,) = look(history, node())
    assert (registered.fact.kind, registered.time, registered.version) == (
        "node.registered",
        at(0),
        str(int(at(0).timestamp())),
    )
    assert look(history, node("w1", "ALLOCATED")) == []
    (drained,) = look(history, DRAINED)
    assert (drained.fact.kind, drained.time, drained.fact.reason) == ("node.drained", at(20), "clusterra:idle")
    assert look(history, DRAINED) == []
    assert kinds(look(history, node())) == ["undrained"]
    assert kinds(look(history, node("w1", "DOWN", "NOT_RESPONDING", reason_changed_at=at(30)))) == ["down"]
    assert kinds(look(history)) == ["removed"]
    assert look(history) == []
    assert kinds(look(history, node(slurmd_start_time=at(50)))) == ["registered"]


def test_a_slurmd_that_began_again_registers_again() -> None:
    history = NodeHistory()
    look(history, node())
    assert kinds(look(history, node(slurmd_start_time=at(9)))) == ["registered"]


def test_a_node_that_does_not_answer_has_not_registered() -> None:
    history = NodeHistory()
    assert look(history, node("w1", "UNKNOWN")) == []
    assert look(history, node(slurmd_start_time=None)) == []
    assert look(history) == []


STEPS = (
    (),
    (node(),),
    (DRAINED,),
    (node("w1", "DOWN", reason_changed_at=at(30)),),
    (node(slurmd_start_time=at(40)),),
    (node("w1", "ALLOCATED"), node("w2")),
)


@given(st.lists(st.sampled_from(STEPS)), st.integers(0, 20))
def test_after_a_restart_nothing_is_told_again(steps: list[tuple[NodeRecord, ...]], cut: int) -> None:
    whole, first = NodeHistory(), NodeHistory()
    expected = [(occurrence.fact, occurrence.version) for nodes in steps for occurrence in look(whole, *nodes)]
    told = [occurrence for nodes in steps[:cut] for occurrence in look(first, *nodes)]
    second = NodeHistory()
    for occurrence in told:
        second.learn(occurrence.fact.node, occurrence.fact.kind, occurrence.version)
    told += [occurrence for nodes in steps[cut:] for occurrence in look(second, *nodes)]
    # Slurm's seconds are all that tells two of a kind apart: those of one version are one event.
    assert {(str(occurrence.fact), occurrence.version) for occurrence in told} == {
        (str(fact), version) for fact, version in expected
    }
