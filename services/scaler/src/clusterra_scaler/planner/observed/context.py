"""The context of one decision: what was observed, and everything that is derived from it once."""

from collections import Counter
from dataclasses import dataclass

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.shape_fit import GpuShapes

from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.breakers import ShapeBreaker, breakers_after
from clusterra_scaler.planner.observed.launch_failures import failing_shapes, recovered_shapes
from clusterra_scaler.planner.observed.observation import Observation, busy_nodes
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.quota import QuotaHeadroom, ceilings, quota_headroom
from clusterra_scaler.planner.observed.registration import recovered
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply, supply_of
from clusterra_scaler.planner.observed.taken_back import still_unconfirmed, taken_back


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
    back, resumed = recovered(observation, state), taken_back(observation, state)
    unconfirmed = still_unconfirmed(observation, state) | dict.fromkeys(resumed | back, state.generation + 1)
    current = state.with_taken_back(unconfirmed).model_copy(update={"breakers": breakers})
    supply = supply_of(observation, current, history.registrations.latency)
    return DecisionContext(
        observation=observation,
        recorded=state,
        state=current,
        recovered=back,
        taken_back=resumed,
        history=history,
        run_history=run_history,
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
