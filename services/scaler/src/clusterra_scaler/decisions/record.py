"""A decision together with its inputs: enough to make it again."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Self

from clusterra_contracts.events import ShapeChange
from clusterra_contracts.identity import ClusterRef
from pydantic import AfterValidator, Field, JsonValue, TypeAdapter

from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.estimates.run_time_model import RunTimeCounts
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.scale_down.drain import Action


def _as_logged(observation: Observation) -> Observation:
    """A logged observation with the policy by which it was decided.

    Releases without a price of waiting decided as if it were 0. Bindings of theirs have today's default otherwise.
    """
    binding = observation.binding
    if "wait_usd_per_hour" in binding.policy.model_fields_set:
        return observation
    policy = binding.policy.model_copy(update={"wait_usd_per_hour": 0.0})
    return replace(observation, binding=binding.model_copy(update={"policy": policy}))


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """All inputs of a decision. A new field needs a default, so that older records can be read.

    Aliases are the field names of the log files: they stay when a field is renamed, so that older logs replay.
    """

    observation: Annotated[Observation, Field(alias="seen"), AfterValidator(_as_logged)]
    state: FleetState
    observation_history: Annotated[ObservationHistory, Field(alias="sightings")]
    run_times: RunTimeCounts = field(default_factory=RunTimeCounts)

    def decide(self) -> Decision:
        """Make the decision from these inputs."""
        return decide(self.observation, self.state, self.observation_history, RunHistory(self.run_times))


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request to Slurm."""

    request: str
    """Its schema name, such as `slurm.drain.v1`."""
    body: dict[str, JsonValue]

    @classmethod
    def of(cls, action: Action) -> Self:
        """Convert a request into its recorded form."""
        return cls(action.schema_name, action.model_dump(mode="json"))


@dataclass(frozen=True, slots=True)
class DecisionOutput:
    """The output of a decision that the scaler acts on."""

    state: FleetState
    changes: tuple[ShapeChange, ...]
    actions: tuple[RecordedRequest, ...]

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Convert a decision into its recorded form."""
        return cls(decision.state, decision.changes, tuple(map(RecordedRequest.of, decision.actions)))


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One line of a decision log. It holds no secrets: a binding only references them."""

    cluster: ClusterRef
    shadow: bool
    """Whether the decision was made in shadow mode, so that nothing was done."""
    given: DecisionInputs
    decided: DecisionOutput


RECORD: TypeAdapter[DecisionRecord] = TypeAdapter(DecisionRecord)
"""Reads and writes records as JSON."""
