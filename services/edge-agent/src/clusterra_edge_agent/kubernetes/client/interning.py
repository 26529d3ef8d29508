"""Parts of the API server's answers of which there are thousands: small, and no part twice that is equal to another."""

from collections.abc import Hashable
from functools import lru_cache
from typing import Annotated, Any, Literal

from clusterra_contracts.identity import Moment
from pydantic import AfterValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass
from pydantic_core import core_schema

from clusterra_edge_agent.kubernetes.client.misclassification import Misclassification, misclassification_of

CONFIG = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)
"""What we do not read is left out, as the API server leaves out what is empty."""
_SHARED = 4096


@lru_cache(_SHARED)
def _shared[T: Hashable](value: T) -> T:
    """The first one that was equal, of the last ones that were asked for."""
    return value


@lru_cache(_SHARED)
def _shared_strings(*items: tuple[str, str]) -> dict[str, str]:
    return dict(items)


def kept(*keys: str) -> AfterValidator:
    """Keep of labels or of annotations what is read. They are shared: nobody may change them."""
    return AfterValidator(lambda given: _shared_strings(*((key, given[key]) for key in keys if key in given)))


class _OrNull:
    """Parsed without leaving pydantic's core: a validator before it would make Python objects of all that is in it."""

    @staticmethod
    def __get_pydantic_core_schema__(source: type[Any], handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        schema = core_schema.nullable_schema(handler(source))
        return core_schema.no_info_after_validator_function(lambda value: value or (), schema)


type Many[T] = Annotated[tuple[T, ...], _OrNull]
"""A list, which the API server may also call null."""

type Shared[T: Hashable] = Annotated[T, AfterValidator(_shared)]
"""A value that many have alike."""


@dataclass(frozen=True, slots=True, config=CONFIG)
class Metadata:
    """Of any object."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Moment | None = None
    deletion_timestamp: Moment | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, config=CONFIG)
class Condition:
    """One of the conditions of a pod or of a Deployment."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, config=CONFIG)
class Waiting:
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, config=CONFIG)
class Terminated:
    """How a run of a container ended."""

    exit_code: int
    message: str = ""

    @property
    def misclassification(self) -> Misclassification | None:
        """Why slurmd has refused to register, where that is why it ended."""
        return misclassification_of(self.exit_code, self.message)


@dataclass(frozen=True, slots=True, config=CONFIG)
class ContainerState:
    """A container is waiting, running or terminated."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


def _unless_empty(state: ContainerState | None) -> ContainerState | None:
    return None if state == ContainerState() else state


@dataclass(frozen=True, slots=True, config=CONFIG)
class ContainerStatus:
    """The present state of a container, and that before."""

    state: ContainerState = ContainerState()
    last_state: Annotated[ContainerState | None, AfterValidator(_unless_empty)] = None


@dataclass(frozen=True, slots=True, config=CONFIG)
class PodSpec:
    """Where a pod runs."""

    node_name: str = ""


def _read(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return tuple(each for each in conditions if each.type in ("Ready", "PodScheduled"))


@dataclass(frozen=True, slots=True, config=CONFIG)
class PodStatus:
    """How far a pod is."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    reason: str = ""
    message: str = ""
    conditions: Annotated[Many[Condition], AfterValidator(_read)] = ()
    container_statuses: Many[ContainerStatus] = ()

    @property
    def ready(self) -> bool:
        """Whether its readiness probe succeeds."""
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.conditions)
