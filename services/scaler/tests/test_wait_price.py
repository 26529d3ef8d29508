"""The price of waiting: a worker with room rejects a job only where a new worker saves more than the wait costs."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.node_extra import OPEN, closed
from clusterra_contracts.registry import ScalingPolicy
from clusterra_contracts.rpc.slurm_nodes import SetExtra
from clusterra_planner_tools.replay import replay
from clusterra_scaler.decisions.record import RECORD
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.registration import Registrations
from fleet_examples import CATALOGUE, NOW, at, edge, group, node, observation, running, snapshot, state, worker
from hypothesis import example, given
from hypothesis import strategies as st

OLD_LOG = Path(__file__).parent / "recorded" / "decisions_without_a_wait_price.jsonl"
"""Decisions of the last release without a price of waiting. In each, a worker is closed to some jobs."""
CLASS = "u20001.t9"


def observed(job_seconds: float, **policy: Any) -> Observation:
    """A worker with 6 free CPUs, busy for a minute, and a job of 2 CPUs that would keep it for longer."""
    nodes = (node("general-medium-1", used=2).model_copy(update={"extra": OPEN}),)
    runs = (running("9", "general-medium-1", cpus=2, since=NOW - 600).model_copy(update={"ends_by": at(NOW + 60)}),)
    job = group("1", cpus=2, time_limit_seconds=job_seconds, extra=f"open=1|{CLASS}=1")
    return observation(snapshot((job,), runs, nodes), edge(worker("general-medium-1")), name="packing", **policy)


def decided(view: Observation, history: ObservationHistory | None = None) -> Decision:
    return decide(view, state(), history or ObservationHistory())


def extras_of(decision: Decision) -> dict[str, str]:
    return {action.node: action.extra for action in decision.actions if isinstance(action, SetExtra)}


def bought(decision: Decision) -> bool:
    assert decision.plan is not None
    return bool(decision.plan.new)


def test_a_job_is_not_refused_for_cents() -> None:
    """A new worker would be some cents cheaper, and boot for a minute."""
    view = observed(3600.0)

    decision = decided(view)

    assert not bought(decision)
    assert extras_of(decision) == {}
    assert bought(decided(observed(3600.0, wait_usd_per_hour=0)))
    assert extras_of(decided(observed(3600.0, wait_usd_per_hour=0))) == {"general-medium-1": closed()}


def test_a_job_is_refused_for_dollars() -> None:
    decision = decided(observed(30 * 86400.0))

    assert bought(decision)
    assert extras_of(decision) == {"general-medium-1": closed()}


@pytest.mark.parametrize(("boot_seconds", "refused"), [(1.0, True), (600.0, False)])
def test_the_wait_is_as_long_as_boots_were_observed_to_take(boot_seconds: float, refused: bool) -> None:
    latency = ProvisioningLatency()
    for _ in range(3):
        latency = latency.with_registered("compute-xs", boot_seconds)

    decision = decided(observed(3600.0), ObservationHistory(registrations=Registrations(latency=latency)))

    assert bought(decision) == refused


def test_bindings_without_a_price_have_the_default() -> None:
    assert ScalingPolicy.model_validate({"name": "packing"}).wait_usd_per_hour == 4.0


prices = st.one_of(st.sampled_from([0.0, 4.0]), st.floats(0.0, 1000.0))
any_nodes = st.lists(
    st.tuples(
        st.sampled_from([shape.name for shape in CATALOGUE.shapes if shape.vcpu > 2]),
        st.integers(1, 3),
        st.sampled_from([30.0, 600.0, 86400.0]),
    ),
    min_size=1,
    max_size=4,
)
"""Shape, used CPUs, and the seconds until what runs there ends."""
any_jobs = st.lists(
    st.tuples(st.integers(1, 8), st.sampled_from([60.0, 3600.0, 86400.0, 30 * 86400.0])), min_size=1, max_size=5
)
"""CPUs and time limit in seconds."""


def accepting(
    workers: list[tuple[str, int, float]], jobs: list[tuple[int, float]], wait_usd_per_hour: float
) -> set[tuple[str, str]]:
    """The pairs of a node and a job class that the decision lets Slurm put together."""
    nodes, runs = [], []
    for number, (shape, used, seconds) in enumerate(workers):
        name = f"{shape}-{number}"
        nodes.append(node(name, used=used).model_copy(update={"extra": OPEN}))
        job = running(f"9{number}", name, cpus=used, since=NOW - 600)
        runs.append(job.model_copy(update={"ends_by": at(NOW + seconds)}))
    classes = [f"u20001.c{number}" for number in range(len(jobs))]
    pending = tuple(
        group(f"{number}", cpus=cpus, time_limit_seconds=seconds, extra=f"open=1|{name}=1")
        for number, (name, (cpus, seconds)) in enumerate(zip(classes, jobs, strict=True), start=1)
    )
    shot = snapshot(pending, tuple(runs), tuple(nodes))
    there = edge(*(worker(each.name) for each in nodes))
    view = observation(shot, there, name="packing", max_workers=1000, wait_usd_per_hour=wait_usd_per_hour)
    extras = extras_of(decided(view))
    return {
        (each.name, name)
        for each in nodes
        for name in classes
        if extras.get(each.name, OPEN) == OPEN or f'"{name}":1' in extras[each.name]
    }


@given(any_nodes, any_jobs, prices, prices)
@example([("general-medium", 2, 30.0)], [(2, 3600.0)], 0.0, 4.0)
def test_a_higher_price_never_refuses_more(
    workers: list[tuple[str, int, float]], jobs: list[tuple[int, float]], one: float, other: float
) -> None:
    low, high = sorted((one, other))

    assert accepting(workers, jobs, low) <= accepting(workers, jobs, high)


def test_a_log_without_a_price_replays_as_it_was_decided() -> None:
    """Since that release, two purchases name their jobs in another order. Workers and nodes are the same."""
    lines = OLD_LOG.read_bytes().splitlines()

    done = replay(lines, lambda found: None)

    assert (done.decisions, done.different, done.bad) == (12, 2, [])
    named = [each for each in done.differences if re.fullmatch(r"changes\[0\]\.job_ids\[\d\]", each.path)]
    assert {each.path for each in done.differences if each not in named} == {"changes[0].reason"}
    assert Counter(each.logged for each in named) == Counter(each.again for each in named)


def test_a_log_with_a_price_replays_at_that_price() -> None:
    """The recorded decisions depend on the price, so the test before this one can fail."""
    lines = [
        line.replace(b'"policy":{', b'"policy":{"wait_usd_per_hour":4,') for line in OLD_LOG.read_bytes().splitlines()
    ]

    done = replay(lines, lambda found: None)

    assert done.different > 6
    assert RECORD.validate_json(lines[0]).given.observation.binding.policy.wait_usd_per_hour == 4
