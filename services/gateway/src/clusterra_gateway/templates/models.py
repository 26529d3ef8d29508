"""Templates as the API takes and shows them."""

from typing import Annotated, Any, Literal

from clusterra_contracts.identity import JobId, Moment
from clusterra_templates.definitions import AnyPreset, Runnable
from clusterra_templates.parts import Expected, Nextflow, Parameter
from clusterra_templates.paths import StagedPaths
from pydantic import ConfigDict, Field, StringConstraints

from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.parameters import Body, Query
from clusterra_gateway.submission.models import ConfirmedCost
from clusterra_gateway.templates.library import Found
from clusterra_gateway.templates.records import TemplateRecord, VersionState

TEMPLATES = "/v1/templates"
TEMPLATE = f"{TEMPLATES}/{{template_id}}"
Kind = Literal["batch", "interactive", "preset", "workflow"]
Values = Annotated[dict[str, Any], Field(max_length=200, default_factory=dict)]


class ParameterView(ResponseBody):
    """A parameter, with what a form needs."""

    name: str
    """Its key in `params`."""
    type: str
    label: str
    default: Any
    options: tuple[bool | int | float | str, ...] | None
    min: int | float | None
    max: int | float | None
    required: bool
    advanced: bool
    description: str

    @classmethod
    def of(cls, parameter: Parameter) -> "ParameterView":
        """What a form needs of a parameter."""
        label = parameter.label or parameter.key
        return cls.showing(parameter, name=parameter.key, type=parameter.widget, label=label)


class InputView(ResponseBody):
    """An input: something that the job reads."""

    name: str
    role: str
    required: bool
    default: str | None
    format: str | None
    description: str
    columns: tuple[str, ...]


class TemplateView(ResponseBody):
    """A template without its script. `ready`: it can be submitted."""

    id: str
    name: str
    description: str
    kind: Kind
    ready: bool
    tools: tuple[str, ...]
    category: str
    origin: Literal["installation", "workspace"]
    version: int | None
    """The version of a template of the workspace."""
    parameters: tuple[ParameterView, ...]
    inputs: tuple[InputView, ...]
    parent_id: str | None
    """For a preset: the template that it gives values to."""
    static_values: dict[str, Any]
    schema_values: dict[str, Any]
    pipeline_repo: str | None
    expected: Expected | None
    """What a job with the example needs."""

    @classmethod
    def of(cls, found: Found) -> "TemplateView":
        """What everybody sees in lists."""
        definition = found.definition
        preset = definition if isinstance(definition, AnyPreset) else None
        repo = preset.pipeline_repo if preset else None
        if isinstance(definition, Runnable) and isinstance(definition.runtime, Nextflow):
            repo = definition.runtime.pipeline_repo
        return cls.showing(
            definition,
            ready=found.ready,
            origin=found.origin,
            version=found.version,
            parameters=tuple(map(ParameterView.of, definition.all_parameters)),
            inputs=tuple(
                InputView.showing(each, name=each.key, columns=each.table.columns if each.table else ())
                for each in definition.all_inputs
            ),
            parent_id=preset.parent_id if preset else None,
            static_values=preset.static_values if preset else {},
            schema_values=preset.schema_values if preset else {},
            pipeline_repo=repo,
            expected=getattr(definition, "expected", None),
        )


class TemplateDetail(TemplateView):
    """A template with its whole definition."""

    definition: dict[str, Any]

    @classmethod
    def of(cls, found: Found) -> "TemplateDetail":
        """What everybody sees of one template."""
        whole = found.definition.model_dump(mode="json", by_alias=True, exclude_none=True)
        return cls(**dict(TemplateView.of(found)), definition=whole)


class TemplateList(ResponseBody):
    """All templates that the caller's workspace has, in the order of their ids."""

    templates: tuple[TemplateView, ...]
    total: int


class LaunchableList(ResponseBody):
    """What can be submitted: templates, presets and workflows as one list."""

    launchables: tuple[TemplateView, ...]
    total: int


class LaunchablesQuery(Query):
    """Filters; one that is not given does not filter."""

    kind: Kind | None = None
    pipeline_repo: Annotated[str, StringConstraints(max_length=300)] | None = None


class RenderQuery(Query):
    """Which version to render."""

    version: Annotated[int, Field(ge=1, le=999_999)] | None = None
    """A version of a template of the workspace; without it, the one in use."""


class LaunchRequest(Body):
    """Values for a template. A field with another name is a parameter or an input, as a flat form sends it.

    For a workflow, the name of a parameter or input of a step is `<step id>.<name>`.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    params: Values
    inputs: Values
    sbatch_override: Annotated[dict[str, Any], Field(max_length=50, default_factory=dict)]
    """Options of sbatch by their long names, such as `{"time": "2:00:00"}`."""
    cluster_id: Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9-]{0,38}$")] | None = None
    """Where to submit it; without it, the only cluster of the workspace."""
    run_name: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = (
        None
    )
    """The name of a workflow's run."""
    confirmed_usd_per_hour: ConfirmedCost = None
    """The cost per hour in US dollars that the caller has seen and wants, as in the `job` of a submit; for a workflow,
    that of each of its jobs."""


class StagedPathView(ResponseBody):
    """A file, or files, that would be staged, as `stage_in` and `stage_out` of a submit name them."""

    source: str
    destination: str


class StagedPathsView(ResponseBody):
    """The files that would be staged for a job. Whether they may be is looked at when it is submitted."""

    current_working_directory: str
    stage_in: tuple[StagedPathView, ...]
    stage_out: tuple[StagedPathView, ...]

    @classmethod
    def of(cls, staged: StagedPaths) -> "StagedPathsView":
        """What a person sees of the rendered paths."""
        return cls(
            current_working_directory=staged.current_working_directory,
            stage_in=tuple(StagedPathView(source=source, destination=to) for source, to in staged.stage_in),
            stage_out=tuple(StagedPathView(source=source, destination=to) for source, to in staged.stage_out),
        )


class RenderedScript(ResponseBody):
    """The script of a job, or of a step of a workflow, as it would be submitted."""

    step_id: str | None
    template_id: str
    depends_on: tuple[str, ...] | None
    script: str
    warnings: tuple[str, ...]
    output_dir: str | None
    artifacts: dict[str, str]
    tasks: int | None
    """How many tasks an array over a table has."""
    staging: StagedPathsView | None
    """The files that are staged for it; null for a job without any."""


class DryRender(ResponseBody):
    """What would be submitted: one script, or those of a workflow's steps."""

    id: str
    version: int | None
    script: str
    """The script of a job; of a workflow that of its first step."""
    steps: tuple[RenderedScript, ...]


class Launched(ResponseBody):
    """What was submitted: a job, or for a workflow a run. One of `job_id` and `run_id` is null."""

    id: str
    version: int | None
    cluster_id: str
    job_id: JobId | None
    run_id: str | None
    repeated: bool
    output_dir: str | None
    warnings: tuple[str, ...]


class NewTemplate(Body):
    """A definition as YAML: `GET /v1/templates/schema` is its JSON Schema."""

    definition: Annotated[str, StringConstraints(min_length=1, max_length=64 * 1024)]


class Review(Body):
    """What an admin says of a version."""

    approve: bool
    note: Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")] = ""


class VersionView(ResponseBody):
    """A version of a template of the workspace."""

    version: int
    state: VersionState
    published: bool
    author: str
    created_at: Moment
    reviewer: str
    note: str


class VersionList(ResponseBody):
    """The versions of a template that are kept, the newest last."""

    id: str
    versions: tuple[VersionView, ...]

    @classmethod
    def of(cls, record: TemplateRecord) -> "VersionList":
        """What everybody in the workspace sees of the versions."""
        return cls(
            id=record.template_id,
            versions=tuple(
                VersionView.showing(each, version=each.number, published=each.number == record.published)
                for each in record.versions
            ),
        )


class VersionDetail(ResponseBody):
    """A version with its definition as it was written."""

    id: str
    version: int
    definition: str
