"""What the planner decides under a policy, and under a changed one, now or from an earlier queue. Pure functions."""

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.registry import ScalingPolicy
from clusterra_contracts.rpc.simulate import (
    NAMED_GROUPS,
    NAMED_JOBS,
    NAMED_WORKERS,
    SimulatedDecision,
    SimulatedShape,
    SimulatedWait,
    SimulatePolicy,
    Simulation,
)
from clusterra_contracts.rpc.slurm_nodes import Drain
from clusterra_contracts.shape_fit import new_workers

from clusterra_scaler.decisions.record import DecisionRecord
from clusterra_scaler.explain.estimate import EstimateInputs
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.requests.demand import startable


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What both decisions are made from."""

    observation: Observation
    state: FleetState
    observation_history: ObservationHistory
    run_history: RunHistory


def simulate(request: SimulatePolicy, inputs: EstimateInputs) -> Simulation:
    """Decide twice from the inputs of an estimate: under the policy that the cluster has, and under the request's."""
    given = _Inputs(inputs.observation, inputs.state, inputs.observation_history, inputs.run_history)
    return _simulation(given, request.policy).model_copy(update={"shadow": inputs.shadow})


def simulate_past(request: SimulatePolicy, record: DecisionRecord) -> Simulation:
    """Decide twice from the inputs of an earlier decision: under its policy, and with the fields that are tried."""
    logged = record.given
    given = _Inputs(logged.observation, logged.state, logged.observation_history, RunHistory(logged.run_times))
    tried = {name: getattr(request.policy, name) for name in request.fields if name in ScalingPolicy.model_fields}
    policy = logged.observation.binding.policy.model_copy(update=tried)
    return _simulation(given, policy).model_copy(update={"generation": record.decided.state.generation})


def _simulation(given: _Inputs, policy: ScalingPolicy) -> Simulation:
    observation = given.observation
    return Simulation(
        present=_decided(given, observation.binding.policy),
        changed=_decided(given, policy),
        paused=observation.binding.state == "paused",
        snapshot_generation=observation.snapshot.generation,
        as_of=observation.snapshot.taken_at,
    )


def _decided(inputs: _Inputs, policy: ScalingPolicy) -> SimulatedDecision:
    binding = inputs.observation.binding.model_copy(update={"policy": policy})
    observation = replace(inputs.observation, binding=binding)
    decision = decide(observation, inputs.state, inputs.observation_history, inputs.run_history)
    shapes = _shapes(observation, decision)
    waits = _waits(decision.plan)
    waiting = sum(each.count for each in waits)
    return SimulatedDecision(
        shapes=shapes,
        usd_per_hour=sum(each.usd_per_hour or 0.0 for each in shapes),
        placed=max(_wanted(observation) - waiting, 0),
        waiting=waiting,
        waits=waits[:NAMED_GROUPS],
    )


def _shapes(observation: Observation, decision: Decision) -> tuple[SimulatedShape, ...]:
    prices = {shape.name: shape.usd_per_hour for shape in observation.binding.catalogue.shapes}
    new: Counter[ShapeName] = Counter(decision.plan.new) if decision.plan is not None else Counter()
    shape_of = {worker.name: worker.shape for worker in observation.edge.workers or ()}
    draining = defaultdict[ShapeName, list[WorkerName]](list)
    for action in decision.actions:
        if isinstance(action, Drain) and action.node in shape_of:
            draining[shape_of[action.node]].append(action.node)
    found = []
    for target in sorted(decision.state.targets, key=lambda each: each.shape):
        victims, drains = (*target.victims, *target.unregistered), draining[target.shape]
        if not (target.replicas or victims or drains):
            continue
        price = prices.get(target.shape)
        found.append(
            SimulatedShape(
                shape=target.shape,
                workers=target.replicas,
                new=new[target.shape],
                drains=len(drains),
                draining=tuple(sorted(drains)[:NAMED_WORKERS]),
                victims=tuple(sorted(victims)[:NAMED_WORKERS]),
                usd_per_hour=None if price is None else price * target.replicas,
            )
        )
    return tuple(found)


def _waits(plan: Plan | None) -> tuple[SimulatedWait, ...]:
    waits = [
        SimulatedWait(count=unmet.count, reason=unmet.reason, job_ids=unmet.demand.job_ids[:NAMED_JOBS])
        for unmet in (plan.unmet if plan is not None else ())
        if unmet.count > 0
    ]
    return tuple(sorted(waits, key=lambda each: -each.count))


def _wanted(observation: Observation) -> int:
    """How many jobs and array tasks wait for nodes and for nothing else."""
    binding = observation.binding
    pending = observation.snapshot.pending or ()
    demands = startable(pending, binding.partition, observation.now, new_workers(binding.catalogue))
    return sum(demand.count for demand in demands)
