"""Definitions of templates: those of version 2 as they are documented, and our own, which say `format: clusterra/1`."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, TypeAdapter, model_validator

from clusterra_templates.parts import (
    ArrayRows,
    Check,
    Example,
    Expected,
    Input,
    Line,
    Outputs,
    Parameter,
    Part,
    Policy,
    Prose,
    Routing,
    Runtime,
    Source,
    Staging,
    TemplateId,
    WorkflowStep,
)

OWN_FORMAT = "clusterra/1"
MAX_PARTS = 200
"""Inputs, and parameters, that a template may have."""

Inputs = Annotated[tuple[Input, ...], Field(max_length=MAX_PARTS)]
Parameters = Annotated[tuple[Parameter, ...], Field(max_length=MAX_PARTS)]
Steps = Annotated[tuple[WorkflowStep, ...], Field(min_length=1, max_length=64)]


class Base(Part):
    """What every definition has."""

    id: TemplateId
    name: Line
    description: Prose
    tools: Annotated[tuple[Line, ...], Field(max_length=50)]
    ready: bool
    """False: it can be looked at, and not submitted."""
    vertical: Line
    category: Line
    workload_group: Line
    modality: Line
    policy: Policy | None = None
    display: Literal["step", "connector"] | None = None
    profiles: Annotated[tuple[dict[str, Any], ...], Field(max_length=50)] = ()
    cost_anchor: Any = None
    validation: Any = None

    @property
    def all_inputs(self) -> tuple[Input, ...]:
        """Its inputs; none for presets and workflows."""
        found: tuple[Input, ...] = getattr(self, "inputs", ())
        return found

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """Its parameters; none for workflows."""
        found: tuple[Parameter, ...] = getattr(self, "parameters", ())
        return found

    @model_validator(mode="after")
    def _keys_are_unique(self) -> Self:
        for what, parts in (("inputs", self.all_inputs), ("parameters", self.all_parameters)):
            keys = [part.key for part in parts]
            if twice := sorted({key for key in keys if keys.count(key) > 1}):
                raise ValueError(f"two {what} have the key {twice[0]}")
        return self


class Own(Base):
    """What our own definitions have besides. What they leave out has a default."""

    format: Literal["clusterra/1"]
    ready: bool = True
    vertical: Line = "general"
    category: Line = "general"
    workload_group: Line = "general"
    modality: Line = "general"


class Tried(Part):
    """How a template is tried out."""

    example: Example = Example()
    expected: Expected | None = None
    check: Check | None = None


class BatchParts(Part):
    """What a batch job has."""

    kind: Literal["batch"]
    runtime: Runtime
    inputs: Inputs
    parameters: Parameters
    sbatch: Source
    outputs: Outputs
    script: Source
    config: Source | None = None
    """The configuration of Nextflow. The script writes it by the name `config`."""
    schedule: Line | None = None


class InteractiveParts(Part):
    """What a session has."""

    kind: Literal["interactive"]
    runtime: Runtime
    inputs: Inputs
    parameters: Parameters
    sbatch: Source
    routing: Routing
    outputs: Outputs | None = None
    script: Source | None = None


class PresetParts(Part):
    """Values for a Nextflow template. They win over its own defaults, and those of whoever submits win over both."""

    kind: Literal["preset"]
    tier: Literal["validated", "borrowed"]
    pipeline_repo: Line
    revision: Line | None = None
    """The version of the pipeline; without it, the one that the template names."""
    parent_id: TemplateId | None = None
    """The template that it is for; without it, one of this pipeline, or one with a parameter `pipeline_repo`."""
    parameters: Parameters = ()
    """Parameters of the template, with the defaults that they have here."""
    static_values: Annotated[dict[str, Any], Field(max_length=MAX_PARTS, default_factory=dict)]
    """Parameters and inputs of the template."""
    schema_values: Annotated[dict[str, Any], Field(max_length=1000, default_factory=dict)]
    """Parameters of the pipeline itself."""


class WorkflowParts(Part):
    """Jobs of other templates that start after each other."""

    kind: Literal["workflow"]
    steps: Steps


class Batch(Base, BatchParts):
    """A batch job of version 2."""


class Interactive(Base, InteractiveParts):
    """A session of version 2."""


class Preset(Base, PresetParts):
    """A preset of version 2."""


class Workflow(Base, WorkflowParts):
    """A workflow of version 2."""


class OwnBatch(Own, Tried, BatchParts):
    """A batch job of our own format."""

    array: ArrayRows | None = None
    staging: Staging | None = None

    @model_validator(mode="after")
    def _array_has_its_input(self) -> Self:
        if self.array is not None:
            of = {each.key: each for each in self.inputs}.get(self.array.input)
            if of is None or of.role not in ("raw_text", "samplesheet"):
                raise ValueError("`array.input` must be the key of an input with the role raw_text or samplesheet")
        return self


class OwnInteractive(Own, Tried, InteractiveParts):
    """A session of our own format."""


class OwnPreset(Own, PresetParts):
    """A preset of our own format."""


class OwnWorkflow(Own, WorkflowParts):
    """A workflow of our own format."""


def _tag(value: Any) -> str | None:
    kind, written_in = (
        (value.get("kind"), value.get("format"))
        if isinstance(value, dict)
        else (getattr(value, "kind", None), getattr(value, "format", None))
    )
    if kind not in ("batch", "interactive", "preset", "workflow"):
        return None
    return f"version 2 {kind}" if written_in is None else f"own {kind}"


type Definition = Annotated[
    Annotated[Batch, Tag("version 2 batch")]
    | Annotated[Interactive, Tag("version 2 interactive")]
    | Annotated[Preset, Tag("version 2 preset")]
    | Annotated[Workflow, Tag("version 2 workflow")]
    | Annotated[OwnBatch, Tag("own batch")]
    | Annotated[OwnInteractive, Tag("own interactive")]
    | Annotated[OwnPreset, Tag("own preset")]
    | Annotated[OwnWorkflow, Tag("own workflow")],
    Discriminator(
        _tag,
        custom_error_type="kind",
        custom_error_message="`kind` must be batch, interactive, preset or workflow",
    ),
]
"""Any definition: `kind` says what it is, and `format` that it is of our own format."""

Runnable = Batch | Interactive | OwnBatch | OwnInteractive
"""A definition that is a job of its own."""
AnyPreset = Preset | OwnPreset
AnyWorkflow = Workflow | OwnWorkflow

DEFINITION: TypeAdapter[Definition] = TypeAdapter(Definition)


def definition_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of definitions."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Definition of a template",
        **DEFINITION.json_schema(by_alias=True),
    }
