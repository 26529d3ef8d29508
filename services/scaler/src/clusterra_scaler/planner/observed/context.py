"""The context of one decision: what was observed, and everything that is derived from it once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.shape_fit import GpuShapes, new_workers

from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.breakers import ShapeBreaker, breakers_after
from clusterra_scaler.planner.observed.launch_failures import failing_shapes, recovered_shapes
from clusterra_scaler.planner.observed.observation import Observation, busy_nodes
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.quota import QuotaHeadroom, ceilings, quota_headroom
from clusterra_scaler.planner.observed.registration import recovered
from clusterra_scaler.planner.observed.request_breakers import (
    RequestBreaker,
    admitted_demands,
    request_breakers_after,
    started_jobs,
    waiting_jobs,
)
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply, supply_of
from clusterra_scaler.planner.observed.taken_back import still_unconfirmed, taken_back
from clusterra_scaler.planner.requests.demand import Demand, startable


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What every step of a decision may read. No step changes it; idle tracking replaces `history`."""

    observation: Observation
    recorded: FleetState
    """The state of the last decision, as it is stored."""
    state: FleetState
    """The recorded state without the victims that are kept after all, and with the breakers of this moment."""
    recovered: frozenset[WorkerName]
    """Workers that were named as unregistered and have registered or begun to serve since."""
    taken_back: frozenset[WorkerName]
    """Victims that Slurm shows not drained, or busy, and that the edge has not removed."""
    history: ObservationHistory
    """The observation history, including this observation."""
    run_history: RunHistory
    demands: Sequence[Demand]
    """The jobs that wait for nodes and for nothing else, in queue order. Of a paused cluster there are none."""
    supply: Supply
    busy: frozenset[WorkerName]
    """Nodes that a running job names."""
    present: frozenset[WorkerName]
    """Workers that the edge has, including those on their way out."""
    gpu_shapes: GpuShapes
    ceilings: Counter[ShapeName]
    """The most workers of each shape that the edge may be acting on."""
    headroom: QuotaHeadroom
    """How many workers may still be bought. Steps take copies with `after`."""


def observe(
    observation: Observation, state: FleetState, history: ObservationHistory, run_history: RunHistory
) -> DecisionContext:
    """Derives the context of a decision; `state` and `history` are those of the last one."""
    history = history.after(observation)
    breakers = _breakers(observation, state, history)
    demands = _demands(observation)
    back, resumed = recovered(observation, state), taken_back(observation, state)
    unconfirmed = still_unconfirmed(observation, state) | dict.fromkeys(resumed | back, state.generation + 1)
    current = state.with_taken_back(unconfirmed).model_copy(update={"breakers": breakers})
    supply = supply_of(observation, current, history.registrations.latency)
    history, requests = _request_breakers(observation, current, history, demands, supply)
    current = current.model_copy(update={"request_breakers": requests})
    return DecisionContext(
        observation=observation,
        recorded=state,
        state=current,
        recovered=back,
        taken_back=resumed,
        history=history,
        run_history=run_history,
        demands=demands,
        supply=supply,
        busy=busy_nodes(observation.snapshot),
        present=frozenset(worker.name for worker in observation.edge.workers or () if worker.phase != "failed"),
        gpu_shapes=GpuShapes(observation.binding.catalogue),
        ceilings=ceilings(observation, current),
        headroom=quota_headroom(observation, current, supply),
    )


def _breakers(observation: Observation, state: FleetState, history: ObservationHistory) -> tuple[ShapeBreaker, ...]:
    if not observation.complete:
        return state.breakers
    failing = failing_shapes(observation, history, state.breakers)
    shapes = [shape.name for shape in observation.binding.catalogue.shapes]
    return breakers_after(
        state.breakers, failing, recovered_shapes(observation, state.breakers), shapes, observation.now
    )


def _demands(observation: Observation) -> Sequence[Demand]:
    binding, pending = observation.binding, observation.snapshot.pending
    if binding.state != "active" or pending is None:
        return ()
    return startable(pending, binding.partition, observation.now, new_workers(binding.catalogue))


def _request_breakers(
    observation: Observation,
    state: FleetState,
    history: ObservationHistory,
    demands: Sequence[Demand],
    supply: Supply,
) -> tuple[ObservationHistory, tuple[RequestBreaker, ...]]:
    """The breakers of requests at this moment, and the history with this observation's jobs that do not start."""
    before, known = history.unstarted_jobs, state.request_breakers
    if not observation.complete or observation.binding.state != "active":
        return history, known
    planned = [replace(each.demand, count=each.count) for each in admitted_demands(demands, known) if each.count]
    unstarted = before.after(observation, planned, supply)
    is_news = unstarted is not before
    started = started_jobs(before.waiting, observation.snapshot.running or (), known)
    breakers = request_breakers_after(known, unstarted.failing if is_news else {}, started, demands, observation.now)
    if is_news:
        unstarted = replace(unstarted, waiting=waiting_jobs(demands, breakers))
    return replace(history, unstarted_jobs=unstarted), breakers
