"""The traces of the decisions that workers are started for.

A worker belongs to its shape, not to a decision: Kubernetes starts it, or the agent replaces one that ended. So a
start counts for the last desired state that wanted more workers of the shape.
"""

from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.scale import DesiredState


@dataclass(frozen=True, slots=True)
class StartTrace:
    """The `traceparent` of a desired state, and when the agent received it."""

    traceparent: str
    received_at: datetime


class StartTraces:
    """The trace of the last desired state that wanted more workers, by shape."""

    def __init__(self) -> None:
        self._replicas: dict[ShapeName, int] = {}
        self._traces: dict[ShapeName, StartTrace] = {}

    def note(self, desired: DesiredState, traceparent: str, received_at: datetime) -> None:
        """Note a desired state, in the order in which they were accepted."""
        for target in desired.targets or ():
            if target.replicas > self._replicas.get(target.shape, 0):
                self._traces[target.shape] = StartTrace(traceparent, received_at)
            self._replicas[target.shape] = target.replicas

    def of(self, shape: ShapeName) -> StartTrace | None:
        """Returns the trace that a start of this shape counts for; None before there was one."""
        return self._traces.get(shape)
