"""Renders the script of a job from a definition and the values that somebody gives."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from clusterra_sbatch.checking import Checked, check
from clusterra_sbatch.parsing import Directive, scan
from clusterra_sbatch.words import PREFIX, head, option_lines

from clusterra_templates import array_rows, values
from clusterra_templates.array_rows import Rows
from clusterra_templates.definitions import BatchParts, Definition, Own, OwnBatch, Runnable
from clusterra_templates.go_rendering import GoTemplate
from clusterra_templates.jinja_language import JinjaTemplate
from clusterra_templates.paths import StagedPaths, output_paths, staged_paths
from clusterra_templates.pieces import Piece, RenderBounds, Text, Value, authored, joined
from clusterra_templates.placement import configuration, placed
from clusterra_templates.problems import RenderRefused, TemplateInvalid, nearest
from clusterra_templates.sources import DENIED, denied_options, script_source, template

OVERRIDES = frozenset(
    {
        *("time", "partition", "gres", "gpus", "gpus-per-node", "mem", "mem-per-cpu", "mem-per-gpu", "cpus-per-task"),
        *("ntasks", "ntasks-per-node", "nodes", "qos", "account", "reservation", "wckey", "constraint", "job-name"),
        *("requeue", "no-requeue", "exclusive", "begin", "tmp", "nice", "hold", "deadline"),
    }
)
"""Options of sbatch that a person may set beside those of the template."""

_OVERRIDE_VALUE = re.compile(r"[A-Za-z0-9_./:@%+,=&|*()\[\]-]{0,200}")


@dataclass(frozen=True)
class JobContext:
    """For whom and as what a job is rendered: the `ctx` of templates.

    There is no e-mail address in it: what a definition of version 2 writes as `user_email` is the Slurm user name, so
    that no address ever gets into a path.
    """

    user: str
    cluster_id: str
    run_id: str
    workflow_run_id: str = ""
    step_id: str = ""

    def of_step(self, step_id: str) -> "JobContext":
        """The context of a step. It writes into a folder of its own, also where two steps have the same template."""
        return replace(self, workflow_run_id=self.run_id, step_id=step_id, run_id=f"{self.run_id}-{step_id}")

    def names(self) -> dict[str, Value]:
        """The fields, as templates name them."""
        return {
            "user": self.user,
            "user_email": self.user,
            "cluster_id": self.cluster_id,
            "run_id": self.run_id,
            "workflow_run_id": self.workflow_run_id or self.run_id,
            "step_id": self.step_id,
        }


@dataclass(frozen=True)
class Wanted:
    """What somebody wants rendered."""

    params: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    sbatch_override: Mapping[str, Any] = field(default_factory=dict)
    """Options of sbatch by their long names, such as `{"time": "2:00:00"}`. True: an option without a value."""
    runtime: Mapping[str, str] = field(default_factory=dict)
    """What a preset says of the runtime: the pipeline and its revision."""


@dataclass(frozen=True)
class Rendered:
    """A script that is ready to be submitted."""

    script: str
    warnings: tuple[str, ...]
    """What the script asks for without effect."""
    output_dir: str | None
    artifacts: dict[str, str]
    """The paths of the artifacts, by their keys."""
    tasks: int | None = None
    """How many rows the table of an array has; None for another job."""
    staged: StagedPaths | None = None
    """The files that are staged for the job; None for a job without any."""


def render(definition: Runnable, wanted: Wanted, context: JobContext, *, now: datetime) -> Rendered:
    """Render a job. Raises RenderRefused, which says what to change."""
    if definition.script is None:
        raise RenderRefused("this template has no script, so it cannot be submitted")
    bounds = RenderBounds()
    names: dict[str, Value] = {
        "runtime": _runtime(definition, wanted),
        "params": values.parameters(definition, wanted.params),
        "inputs": values.inputs(definition, wanted.inputs),
        "policy": definition.policy.model_dump(mode="json") if definition.policy is not None else {},
        "ctx": context.names(),
    }
    rows = _rows(definition, names["inputs"])
    directory, artifacts = output_paths(definition, definition.outputs, names, bounds)
    written: dict[str, Value] = {"dir": directory or "", **artifacts}
    names["outputs"] = written
    if isinstance(definition, BatchParts) and definition.config is not None:
        names["config"] = configuration(template(definition, definition.config).pieces(names, bounds))
    staged = staged_paths(definition, names, bounds)
    pieces = template(definition, script_source(definition)).pieces(names, bounds)
    script = placed(pieces, RenderBounds())
    _check_lines(pieces, script)
    if denied := denied_options(script):
        raise RenderRefused(denied[0])
    script = _overridden(script, wanted.sbatch_override)
    if rows is not None and isinstance(definition, OwnBatch) and definition.array is not None:
        directive = array_rows.directive(rows, definition.array.at_once)
        script = _inserted(script, directive, array_rows.prologue(rows, _columns(definition)))
    checked = _checked(script, now)
    return Rendered(script, checked.warnings, directory, artifacts, len(rows.rows) if rows else None, staged)


def render_text(definition: Definition, source: str, context: JobContext) -> str:
    """A short text with `ctx` alone, such as a path that a workflow gives to a step. Raises RenderRefused."""
    language = JinjaTemplate if isinstance(definition, Own) else GoTemplate
    try:
        return joined(language(source).pieces({"ctx": context.names()}, RenderBounds()))
    except TemplateInvalid as error:
        raise RenderRefused(f"{source[:100]!r}: {error}") from None


def _runtime(definition: Runnable, wanted: Wanted) -> Value:
    own = authored(definition.runtime.model_dump(mode="json"))
    return {**own, **wanted.runtime} if isinstance(own, dict) else own


def _rows(definition: Runnable, inputs: Value) -> Rows | None:
    if not isinstance(definition, OwnBatch) or definition.array is None or not isinstance(inputs, dict):
        return None
    key = definition.array.input
    return array_rows.read_rows(key, str(inputs[key]), _columns(definition))


def _columns(definition: OwnBatch) -> tuple[str, ...]:
    of = next(each for each in definition.inputs if definition.array and each.key == definition.array.input)
    return of.table.columns if of.table is not None else ()


def _check_lines(pieces: list[Piece], script: str) -> None:
    """Raises RenderRefused unless the script has as many lines with options as the author has written."""
    plain = "".join(piece.text if isinstance(piece, Text) else "x" for piece in pieces)
    if option_lines(script) != option_lines(plain):
        raise RenderRefused(f"a value has made a {PREFIX} line: change it")


def _inserted(script: str, directives: str, commands: str = "") -> str:
    """The script with further `#SBATCH` lines, and commands before its first one."""
    lines = script.split("\n")
    first_command = len(head(script))
    before = "\n".join(lines[:first_command])
    if before and not before.endswith("\n"):
        before += "\n"
    return before + directives + commands + "\n".join(lines[first_command:])


def _overridden(script: str, override: Mapping[str, Any]) -> str:
    """The script with options of sbatch in place of those of the template."""
    lines: list[str] = []
    for name, value in override.items():
        if name not in OVERRIDES:
            raise RenderRefused(f"sbatch_override: `{name[:100]}` cannot be set: {nearest(name, OVERRIDES)}")
        if value is True:
            lines.append(f"{PREFIX} --{name}\n")
            continue
        if isinstance(value, bool) or not isinstance(value, str | int) or not _OVERRIDE_VALUE.fullmatch(str(value)):
            raise RenderRefused(f"sbatch_override: the value of `{name}` must be a number or short text without spaces")
        lines.append(f"{PREFIX} --{name}={value}\n")
    return _inserted(_without(script, override.keys()), "".join(lines)) if lines else script


def _without(script: str, options: Collection[str]) -> str:
    """The script without the lines that hold nothing but an option which is set anew."""
    lines = script.split("\n")
    by_line: dict[int, list[str]] = {}
    for each in scan(script):
        if isinstance(each, Directive):
            by_line.setdefault(each.line, []).append(each.option.long)
    memory = {"mem", "mem-per-cpu", "mem-per-gpu"}
    gone = set(options) | (memory if memory & set(options) else set())
    return "\n".join(
        text for number, text in enumerate(lines, start=1) if not (by_line.get(number) and set(by_line[number]) <= gone)
    )


def _checked(script: str, now: datetime) -> Checked:
    checked = check(script, now=now, denied=DENIED - OVERRIDES)
    if checked.problems:
        raise RenderRefused("; ".join(map(str, checked.problems[:10])))
    return checked
