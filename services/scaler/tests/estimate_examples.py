"""The inputs of estimates: those of a real decision."""

from dataclasses import replace

from clusterra_scaler.explain.estimate import EstimateInputs
from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import START

BOOT_SECONDS = 60.0


def inputs_of(view: Observation, before: FleetState | None = None, *, shadow: bool = False) -> EstimateInputs:
    history = ObservationHistory()
    latency = history.registrations.latency.with_registered("compute-xs", BOOT_SECONDS)
    history = replace(history, registrations=replace(history.registrations, latency=latency))
    decision = decide(view, before or FleetState.initial(START), history)
    assert decision.plan is not None
    return EstimateInputs(
        observation=view,
        state=decision.state,
        observation_history=history,
        run_history=RunHistory(),
        plan=decision.plan,
        shadow=shadow,
    )
