"""The Extra of workers with GPUs, which keeps other jobs off their CPUs."""

from clusterra_contracts.node_extra import OPEN, closed
from clusterra_contracts.queue import NodeState
from clusterra_contracts.rpc.slurm_nodes import SetExtra
from clusterra_scaler.planner.decide import Decision
from fleet_examples import edge, group, node, state, target, worker
from gpu_examples import CLASSED, decision_of

FLEET = state(target("l4-small", 1), target("compute-xs", 1))
REPORT = edge(worker("l4-small-1"), worker("compute-xs-1"))
ADMITTING = closed(["u20001.c1.xl4"])
"""The Extra that admits the class of jobs whose constraint is `l4`."""


def extras(decision: Decision) -> dict[str, str]:
    """The Extra that a decision sets, by node."""
    return {action.node: action.extra for action in decision.actions if isinstance(action, SetExtra)}


def node_with_extra(name: str, extra: str) -> NodeState:
    return node(name, idle_for=10).model_copy(update={"extra": extra})


def nodes_with(gpu_extra: str) -> tuple[NodeState, ...]:
    """The nodes of the fleet: one with GPUs and this Extra, and an open one without GPUs."""
    return node_with_extra("l4-small-1", gpu_extra), node_with_extra("compute-xs-1", OPEN)


def test_an_open_worker_with_gpus_is_closed(policy: str) -> None:
    decision = decision_of(policy, (), REPORT, FLEET, nodes=nodes_with(OPEN))

    assert extras(decision) == {"l4-small-1": closed()}


def test_a_closed_worker_with_gpus_stays_closed_to_jobs_that_can_run_elsewhere(policy: str) -> None:
    job = group("1", cpus=2, extra=CLASSED)

    assert extras(decision_of(policy, (job,), REPORT, FLEET, nodes=nodes_with(closed()))) == {}


def test_a_worker_with_gpus_admits_jobs_that_can_run_nowhere_else(policy: str) -> None:
    by_constraint = group("1", features="l4", extra="open=1|u20001.c1.xl4=1")
    for_gpus = group("1", gres="job/gpu=1", extra="open=1|u20001.c1.xl4=1")

    for job in (by_constraint, for_gpus):
        decision = decision_of(policy, (job,), REPORT, FLEET, nodes=nodes_with(closed()))

        assert extras(decision) == {"l4-small-1": ADMITTING}


def test_a_worker_with_gpus_admits_a_class_for_as_long_as_its_jobs_wait(policy: str) -> None:
    job = group("1", features="l4", extra="open=1|u20001.c1.xl4=1")

    while_it_waits = decision_of(policy, (job,), REPORT, FLEET, nodes=nodes_with(ADMITTING))
    afterwards = decision_of(policy, (), REPORT, FLEET, nodes=nodes_with(ADMITTING))

    assert extras(while_it_waits) == {}
    assert extras(afterwards) == {"l4-small-1": closed()}


def test_an_extra_with_other_content_is_left_alone(policy: str) -> None:
    report, fleet = edge(worker("l4-small-1"), worker("l4-small-2")), state(target("l4-small", 2))
    nodes = (node_with_extra("l4-small-1", "rack=7"), node_with_extra("l4-small-2", ""))
    job = group("1", features="l4", extra=CLASSED)

    without_jobs = decision_of(policy, (), report, fleet, nodes=nodes)
    with_job = decision_of(policy, (job,), report, fleet, nodes=nodes)

    assert extras(without_jobs) == {}
    assert extras(with_job) == {"l4-small-2": closed(["u20001.c1"])}
