"""The templates within a definition: its script, its `#SBATCH` lines, the paths that it writes. Checked at load."""

import re
from collections.abc import Callable, Collection, Iterator

from clusterra_sbatch.checking import check_denied
from clusterra_sbatch.parsing import Directive, scan
from clusterra_sbatch.words import PREFIX

from clusterra_templates.definitions import BatchParts, Own, OwnBatch, Runnable
from clusterra_templates.go_rendering import GoTemplate
from clusterra_templates.jinja_language import JinjaTemplate
from clusterra_templates.parts import Nextflow, StageIn, StageOut, Staging
from clusterra_templates.placement import INTERPRETERS
from clusterra_templates.problems import TemplateInvalid
from clusterra_templates.references import check_references

DENIED = frozenset(
    {
        *("uid", "gid", "get-user-env", "export-file", "propagate", "nodefile"),
        *("wrap", "wait", "test-only", "help", "usage", "version", "parsable", "ignore-pbs"),
        *("clusters", "cluster-constraint", "comment", "extra", "mail-type", "mail-user", "mcs-label"),
        *("priority", "reboot", "core-spec", "thread-spec", "bb", "bbf", "network", "power", "stepmgr"),
        *("cluster", "autocomplete", "context", "external", "resources", "mem-update"),
        *("container", "container-id", "container-type", "nodelist", "reservation", "account", "qos", "wckey"),
    }
)
"""Options of sbatch that no template may set. They are about who runs the job, about other machines, about special
rights, or belong to the person who submits. That person may still set the last ones in `sbatch_override`."""
check_denied(DENIED)

MAX_SHOWN = 100
"""How much of a line an error repeats."""
DEFAULT_INTERPRETER = "#!/bin/bash\n"
_ENDS = {"{{": "}}", "{%": "%}", "{##": "##}"}
"""How each insertion begins and ends."""
_BEGINNING = re.compile("|".join(map(re.escape, _ENDS)))

type Template = GoTemplate | JinjaTemplate


def template(definition: Runnable, source: str, line: int = 1) -> Template:
    """A template in the language of the definition. Raises TemplateInvalid."""
    return JinjaTemplate(source, line=line) if isinstance(definition, Own) else GoTemplate(source, line=line)


def script_source(definition: Runnable) -> str:
    """The whole script as a template: the interpreter, the `#SBATCH` lines, the rest."""
    script = definition.script or ""
    first, rest = DEFAULT_INTERPRETER, script
    if script.startswith("#!"):
        first, newline, rest = script.partition("\n")
        first += newline or "\n"
    lines = definition.sbatch
    return first + lines + ("" if not lines or lines.endswith("\n") else "\n") + rest


def check_sources(definition: Runnable, line_of: Callable[..., int]) -> None:
    """Raises TemplateInvalid for a template that can never be rendered, or sets an option that none may set."""
    if definition.script is not None:
        first = definition.script.partition("\n")[0]
        if first.startswith("#!") and not INTERPRETERS.fullmatch(first):
            raise TemplateInvalid(
                "the script must be one of bash or sh: call another interpreter from it", line=line_of("script")
            )
    config = definition.config if isinstance(definition, BatchParts) else None
    if config is not None and not isinstance(definition.runtime, Nextflow):
        raise TemplateInvalid("only a Nextflow runtime has `config`: remove it", line=line_of("config"))
    known = _known(definition)
    for source, place in _sources(definition):
        check_references(template(definition, source, line_of(*place)).references, known)
    _check_sbatch(definition.sbatch, line_of("sbatch"))


def _known(definition: Runnable) -> dict[str, set[str]]:
    """The keys of each object that a template may name, as far as the definition decides on them."""
    artifacts = definition.outputs.artifacts if definition.outputs is not None else ()
    return {
        "params": {each.key for each in definition.parameters},
        "inputs": {each.key for each in definition.inputs},
        "outputs": {"dir", *(each.key for each in artifacts)},
    }


def _sources(definition: Runnable) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Each template of a definition, and its place."""
    if definition.script is not None:
        yield definition.script, ("script",)
    yield definition.sbatch, ("sbatch",)
    if definition.outputs is not None:
        yield definition.outputs.dir, ("outputs", "dir")
        for index, artifact in enumerate(definition.outputs.artifacts):
            yield artifact.path, ("outputs", "artifacts", index, "path")
    if isinstance(definition, BatchParts) and definition.config is not None:
        yield definition.config, ("config",)
    if isinstance(definition, OwnBatch) and definition.staging is not None:
        yield from _staged_sources(definition.staging)


def _staged_sources(staging: Staging) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    yield staging.current_working_directory, ("staging", "current_working_directory")
    both: tuple[tuple[str, tuple[StageIn | StageOut, ...]], ...] = (
        ("stage_in", staging.stage_in),
        ("stage_out", staging.stage_out),
    )
    for key, entries in both:
        for index, entry in enumerate(entries):
            yield entry.source, ("staging", key, index, "source")
            yield entry.destination, ("staging", key, index, "destination")


def denied_options(script: str, denied: Collection[str] = DENIED) -> list[str]:
    """What is wrong with each line of a script that sets an option which it must not set."""
    return [
        f"line {each.line}: {each.option.name} is not allowed here: remove it"
        for each in scan(script)
        if isinstance(each, Directive) and each.option.long in denied
    ]


def _check_sbatch(source: str, line: int) -> None:
    """Looks at the lines as far as they stand before any value is known."""
    one_line_each = _inserted(source, lambda insertion: insertion.replace("\n", " "))
    for offset, text in enumerate(one_line_each.split("\n")):
        at = line + offset
        bare = _inserted(text, lambda _: "").strip()
        if bare and not bare.startswith("#"):
            shown = repr(bare if len(bare) <= MAX_SHOWN else f"{bare[:MAX_SHOWN]}...")
            raise TemplateInvalid(f"`sbatch` has only {PREFIX} lines and comments: move {shown} to `script`", line=at)
        known = _inserted(text, lambda insertion: "1" if insertion.startswith("{{") else insertion)
        if denied := denied_options(known):
            raise TemplateInvalid(denied[0].partition(": ")[2], line=at)


def _inserted(source: str, insertion: Callable[[str], str]) -> str:
    """The source with something else for each insertion, such as `{{ value }}`.

    It is read once. A regular expression would read on to the end for each beginning without an end.
    """
    written: list[str] = []
    at = looked = 0
    endless = set[str]()
    while (found := _BEGINNING.search(source, looked)) is not None:
        begins, looked = found.group(), found.start() + 1
        if begins in endless:
            continue
        end = source.find(_ENDS[begins], found.end())
        if end < 0:
            endless.add(begins)
            continue
        end += len(_ENDS[begins])
        written += [source[at : found.start()], insertion(source[found.start() : end])]
        at = looked = end
    return "".join([*written, source[at:]])
