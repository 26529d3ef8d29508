"""Interned values of the API server's answers: of thousands of objects, equal values are stored once."""

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
"""Fields that are not read are ignored. The API server omits empty fields."""
_CACHE_SIZE = 4096


@lru_cache(_CACHE_SIZE)
def _interned[T: Hashable](value: T) -> T:
    """Returns the first of the recently used values that is equal to this one."""
    return value


@lru_cache(_CACHE_SIZE)
def _interned_dict(*items: tuple[str, str]) -> dict[str, str]:
    return dict(items)


def interned_items(*keys: str) -> AfterValidator:
    """Keeps only these keys of labels or annotations. The resulting dictionaries are shared and must not be changed."""
    return AfterValidator(lambda given: _interned_dict(*((key, given[key]) for key in keys if key in given)))


class _OrNull:
    """Parses null inside pydantic's core. A validator before it would turn the whole list into Python objects first."""

    @staticmethod
    def __get_pydantic_core_schema__(source: type[Any], handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        schema = core_schema.nullable_schema(handler(source))
        return core_schema.no_info_after_validator_function(lambda value: value or (), schema)


type NullableList[T] = Annotated[tuple[T, ...], _OrNull]
"""A list for which the API server may also send null."""

type Interned[T: Hashable] = Annotated[T, AfterValidator(_interned)]
"""A value that many objects share."""


@dataclass(frozen=True, slots=True, config=CONFIG)
class Metadata:
    """Metadata of any object."""

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
    """A condition of a pod or a Deployment."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, config=CONFIG)
class Waiting:
    """Why a container is not running."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, config=CONFIG)
class Terminated:
    """How a run of a container ended."""

    exit_code: int
    message: str = ""

    @property
    def misclassification(self) -> Misclassification | None:
        """Why the entrypoint did not start slurmd, if it ended because of a misclassified machine."""
        return misclassification_of(self.exit_code, self.message)


@dataclass(frozen=True, slots=True, config=CONFIG)
class ContainerState:
    """State of a container: waiting, running or terminated."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


def _unless_empty(state: ContainerState | None) -> ContainerState | None:
    return None if state == ContainerState() else state


@dataclass(frozen=True, slots=True, config=CONFIG)
class ContainerStatus:
    """The current and the previous state of a container."""

    state: ContainerState = ContainerState()
    last_state: Annotated[ContainerState | None, AfterValidator(_unless_empty)] = None


@dataclass(frozen=True, slots=True, config=CONFIG)
class PodSpec:
    """The node of a pod."""

    node_name: str = ""


SLURM_STATE = "SlurmNodeState"
"""Prefix of the conditions in which Slinky's operator shows the states of a pod's node in Slurm."""


def _read_conditions(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    kept = [each for each in conditions if each.type in ("Ready", "PodScheduled")]
    # Without their messages, so that many pods share them.
    slurm = [each for each in conditions if each.type.startswith(SLURM_STATE) and each.status == "True"]
    return (*kept, *(Condition(each.type, each.status) for each in slurm))


@dataclass(frozen=True, slots=True, config=CONFIG)
class PodStatus:
    """The progress of a pod."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    reason: str = ""
    message: str = ""
    conditions: Annotated[NullableList[Condition], AfterValidator(_read_conditions)] = ()
    container_statuses: NullableList[ContainerStatus] = ()

    @property
    def ready(self) -> bool:
        """Whether the pod's Ready condition is true."""
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.conditions)

    @property
    def slurm_states(self) -> frozenset[str]:
        """The states of its node in Slurm, such as `Idle` and `Drain`; empty where they are not told."""
        return frozenset(
            each.type.removeprefix(SLURM_STATE) for each in self.conditions if each.type.startswith(SLURM_STATE)
        )
