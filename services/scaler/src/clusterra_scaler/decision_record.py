"""A decision with everything it was made from: enough to make it again."""

from dataclasses import dataclass, field
from typing import Annotated, Self

from clusterra_contracts.events import ShapeChange
from clusterra_contracts.identity import ClusterRef
from pydantic import Field, JsonValue, TypeAdapter

from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.estimates.run_time_model import Counts
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.scale_down.drain import Action


@dataclass(frozen=True, slots=True)
class Given:
    """All that a decision depends on. A new field needs a default, so that older records can be read.

    Aliases are the field names of the log files: they stay when a field is renamed, so that older logs replay.
    """

    observation: Annotated[Observation, Field(alias="seen")]
    state: FleetState
    observation_history: Annotated[ObservationHistory, Field(alias="sightings")]
    run_times: Counts = field(default_factory=Counts)

    def decide(self) -> Decision:
        """Make the decision."""
        return decide(self.observation, self.state, self.observation_history, RunHistory(self.run_times))


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to Slurm."""

    request: str
    """Its schema, such as `slurm.drain.v1`."""
    body: dict[str, JsonValue]

    @classmethod
    def of(cls, action: Action) -> Self:
        """The record of a request."""
        return cls(action.schema_name, action.model_dump(mode="json"))


@dataclass(frozen=True, slots=True)
class Decided:
    """What of a decision is acted on."""

    state: FleetState
    changes: tuple[ShapeChange, ...]
    actions: tuple[Asked, ...]

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """The record of a decision."""
        return cls(decision.state, decision.changes, tuple(map(Asked.of, decision.actions)))


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One line of a decision log. There are no secrets in it: a binding holds references to them."""

    cluster: ClusterRef
    shadow: bool
    """Nothing was done of what was decided."""
    given: Given
    decided: Decided


RECORD: TypeAdapter[DecisionRecord] = TypeAdapter(DecisionRecord)
"""Reads and writes records as JSON."""
