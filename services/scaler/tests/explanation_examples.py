"""Explanations made from the decision on an observation."""

from typing import Any

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.why import Explanation
from clusterra_scaler.explain.alternatives import Offered
from clusterra_scaler.explain.explanation import ExplanationInputs, explanation
from clusterra_scaler.explain.purchases import PurchaseHistory
from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import START, observation, snapshot

ADA = Viewer(user=SlurmUser(name="ada", uid=20001, gid=20001))
"""The owner of all jobs in these tests."""
BOB = Viewer(user=SlurmUser(name="bob", uid=20002, gid=20002))
LATENCY = ProvisioningLatency().with_registered("compute-xs", 60.0)


def inputs_of(view: Observation, before: FleetState | None = None, **more: Any) -> ExplanationInputs:
    """The inputs of an explanation after one decision on an observation."""
    decision = decide(view, before or FleetState.initial(START), ObservationHistory())
    assert decision.plan is not None
    offered = Offered.of(decision, view.binding, RunHistory())
    assert offered is not None
    return ExplanationInputs(
        observation=view,
        state=decision.state,
        plan=decision.plan,
        offered=offered,
        latency=LATENCY,
        purchases=PurchaseHistory().after(decision, view.snapshot),
        **more,
    )


def explained(
    job_id: str, view: Observation, before: FleetState | None = None, viewer: Viewer = ADA, **more: Any
) -> Explanation:
    """The explanation of a job after one decision on an observation."""
    found = explanation(job_id, viewer, inputs_of(view, before, **more), view.now)
    assert found is not None
    return found


def empty_cluster(*pending: PendingJobs, **policy: Any) -> Observation:
    """A cluster without workers in which these jobs are pending."""
    return observation(snapshot(pending), **policy)
