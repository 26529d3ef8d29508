"""The parts of a definition: inputs, parameters, the runtime, outputs, routing, steps."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

MAX_TEXT = 64 * 1024

TemplateId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
Key = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
StepId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
Line = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]
Prose = Annotated[str, StringConstraints(max_length=8000)]
Source = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
"""A template in the language of the definition."""
Number = Annotated[int | float, Field(allow_inf_nan=False)]
Scalar = bool | int | float | str

Role = Literal[
    "fastq_r1",
    "fastq_r2",
    "bam",
    "cram",
    "fasta",
    "reference_fasta",
    "samplesheet",
    "config_xml",
    "config_json",
    "mdp",
    "prmtop",
    "inpcrd",
    "pdb",
    "pdbqt",
    "sdf",
    "mol2",
    "mgf",
    "mzml",
    "hmm_db",
    "fasta_db",
    "generic_path",
    "raw_text",
    "sample_id",
    "license_id",
    "env_map",
]
"""What an input is. The last four, and no others, are not the path of a file."""
NOT_A_PATH: frozenset[str] = frozenset({"raw_text", "sample_id", "license_id", "env_map"})
Widget = Literal["text", "textarea", "number", "enum", "bool", "env_map", "nextflow_schema", "json_textarea"]


class Part(BaseModel):
    """A part of a definition. Unknown keys are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Columns(Part):
    """The columns that a table must have."""

    columns: Annotated[tuple[Line, ...], Field(max_length=100)] = ()


class Input(Part):
    """Something that a job reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    key: Key
    role: Role
    required: bool = False
    default: str | None = None
    format: Line | None = None
    description: Prose = ""
    table: Annotated[Columns | None, Field(alias="schema")] = None


class Parameter(Part):
    """Something that a person chooses."""

    key: Key
    widget: Widget
    label: Line | None = None
    default: Scalar | dict[str, Any] | list[Any] | None = None
    options: Annotated[tuple[Scalar, ...], Field(min_length=1, max_length=500)] | None = None
    min: Number | None = None
    max: Number | None = None
    required: bool = False
    advanced: bool = False
    description: Prose = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.widget == "enum" and self.options is None:
            raise ValueError("an enum needs `options`")
        if self.widget != "number" and (self.min is not None or self.max is not None):
            raise ValueError("only a number has `min` and `max`")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("`min` is above `max`")
        return self


class RuntimePart(Part):
    """What every runtime has."""

    notes: Prose | None = None
    """For whoever reads the definition."""


class DockerImage(RuntimePart):
    """Runs in a container."""

    kind: Literal["docker_image"]
    image: Line
    registry_auth: Line | None = None


class HostBinary(RuntimePart):
    """Runs a program that is built on the cluster."""

    kind: Literal["host_binary"]
    build_image: Line | None = None
    binary_path: Line
    build_command: Prose | None = None


class Venv(RuntimePart):
    """Runs in a virtual environment of Python."""

    kind: Literal["venv"]
    python_version: Line | None = None
    cache_dir: Line | None = None
    requirements: tuple[Line, ...] | Prose | None = None
    requirements_file: Line | None = None
    entrypoint: Line | None = None
    base_image: Line | None = None


class HostSystem(RuntimePart):
    """Runs a program that the workers have."""

    kind: Literal["host_system"]
    binary: Line


class Nextflow(RuntimePart):
    """Runs a pipeline of Nextflow."""

    kind: Literal["nextflow"]
    pipeline_repo: Line
    revision: Line | None = None
    nxf_version: Line | None = None
    schema_source: Literal["auto", "none", "url"] = "auto"
    schema_url: Line | None = None


class InteractiveImage(RuntimePart):
    """Runs a session in a container."""

    kind: Literal["interactive_image"]
    image: Line
    registry_auth: Line | None = None


Runtime = Annotated[
    DockerImage | HostBinary | Venv | HostSystem | Nextflow | InteractiveImage, Field(discriminator="kind")
]


class Artifact(Part):
    """A file that the job leaves."""

    key: Key
    path: Source
    role: Literal["metrics_file", "primary_output", "log", "generic"] = "generic"
    description: Prose = ""


class Outputs(Part):
    """Where the job writes."""

    dir: Source
    artifacts: Annotated[tuple[Artifact, ...], Field(max_length=100)] = ()


class StageIn(Part):
    """A file of the bucket that the job reads, and the file that it becomes in the job's working directory."""

    source: Source
    """A template of a path such as `data/x.csv`. Where it renders to nothing, there is no such file."""
    destination: Source


class StageOut(Part):
    """Files of the job's working directory, by a pattern, and the folder of the bucket that they are copied to."""

    source: Source
    """A template of a pattern such as `results/**`. Where it renders to nothing, nothing is copied."""
    destination: Source


class Staging(Part):
    """The files that are staged for the job."""

    current_working_directory: Source
    """The job's working directory, in the cluster's shared folder."""
    stage_in: Annotated[tuple[StageIn, ...], Field(max_length=100)] = ()
    stage_out: Annotated[tuple[StageOut, ...], Field(max_length=32)] = ()

    @model_validator(mode="after")
    def _stages_something(self) -> Self:
        if not self.stage_in and not self.stage_out:
            raise ValueError("`staging` needs `stage_in` or `stage_out`")
        return self


class Routing(Part):
    """How a browser reaches a session."""

    path_prefix: Source
    port_param: Line
    ready_callback: bool = True
    idle_cull_min: Annotated[int, Field(ge=0)] | None = None


class Policy(Part):
    """Which workers a job prefers."""

    prefer_on_demand: bool = False
    prefer_arm64: bool = False


class WorkflowStep(Part):
    """One job of a workflow."""

    step_id: StepId
    template_id: TemplateId
    param_overrides: Annotated[dict[Key, Any], Field(max_length=100)] = {}
    input_overrides: Annotated[dict[Key, Any], Field(max_length=100)] = {}
    depends_on: Annotated[tuple[StepId, ...], Field(max_length=64)] | None = None
    """The steps that must have completed before; without it, the step before this one."""
    display_name: Line | None = None


class ArrayRows(Part):
    """An array with a task for each row of a table."""

    input: Key
    """The input, of the role `raw_text` or `samplesheet`, that holds the table itself."""
    at_once: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """How many tasks run at the same time."""


class Expected(Part):
    """What a job with the example needs, as it was estimated or measured by the author."""

    cpus: Annotated[int, Field(ge=1)]
    memory_mib: Annotated[int, Field(ge=1)]
    minutes: Annotated[int, Field(ge=1)]
    gpus: Annotated[int, Field(ge=0)] = 0
    nodes: Annotated[int, Field(ge=1)] = 1


class Example(Part):
    """Values with which the template can be tried."""

    params: dict[Key, Any] = {}
    inputs: dict[Key, Any] = {}


class Check(Part):
    """How to see that the example's job did its work."""

    output_contains: Annotated[tuple[Line, ...], Field(min_length=1, max_length=20)]
    """Texts that the job's standard output has."""
    needs: Annotated[tuple[Line, ...], Field(max_length=20)] = ()
    """The programs that workers must have, by their names in PATH."""
