"""Checks a script: what sbatch would reject, what cannot have its effect here, and what its author may not ask for."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

from clusterra_sbatch.options import LONG
from clusterra_sbatch.parsing import Directive, scan
from clusterra_sbatch.problems import MAX_FINDINGS, Problem
from clusterra_sbatch.translations import (
    GRES,
    HINT,
    HINTS,
    INSTEAD_OF_HINT,
    MULTITHREAD,
    Fields,
)
from clusterra_sbatch.values import OptionValue, Untranslatable

EXCLUSIVE: tuple[dict[str, str], ...] = (
    {"memory_per_node": "--mem", "memory_per_cpu": "--mem-per-cpu", "memory_per_tres": "--mem-per-gpu"},
    {"cpus_per_task": "--cpus-per-task", "cpus_per_tres": "--cpus-per-gpu"},
)
"""Fields of which a job has one, with their options. Slurm would take one of them and say nothing."""

OPPOSITE_FLAGS = (
    ("KILL_INVALID_DEPENDENCY", "NO_KILL_INVALID_DEPENDENCY"),
    ("GRES_BINDING_ENFORCED", "GRES_BINDING_DISABLED"),
)

_REMOVE = "remove the line from the script"


@dataclass(frozen=True)
class Checked:
    """A script's directives as far as they are valid, and what there is to say about the script."""

    directives: tuple[Directive, ...]
    fields: Fields
    """The fields that the directives set, and the keys of `options` that stand for several fields."""
    problems: tuple[Problem, ...]
    """Why the script is rejected, in the order of the lines; none for a valid script."""
    warnings: tuple[str, ...]
    """The options that are accepted without their effect, with their lines."""


def check(script: str, *, now: datetime, denied: Collection[str] = ()) -> Checked:
    """Return all problems and warnings of a script, at most MAX_FINDINGS of each. Relative times count from `now`.

    `denied` has the long names, without hyphens, of the options that the script must not have. sbatch reads a prefix
    of a name and a short name as the option, and so does this check.
    """
    directives: list[Directive] = []
    fields: Fields = {}
    problems = list(_check_text(script))
    warnings: list[str] = []
    set_options: set[str] = set()
    for each in scan(script):
        if len(problems) >= MAX_FINDINGS:
            break
        if isinstance(each, Problem):
            problems.append(each)
        elif each.option.long in denied:
            problems.append(Problem(each.line, f"{each.option.name} is not allowed here", _REMOVE))
        else:
            try:
                fields = _with(fields, each, now)
                set_options.add(each.option.long)
                _check_options(set_options, fields)
            except Untranslatable as error:
                problems.append(each.problem(str(error)))
                continue
            directives.append(each)
            if each.option.warning and len(warnings) < MAX_FINDINGS:
                warnings.append(f"line {each.line} of the script: {each.option.name} is {each.option.warning}")
    problems += _check_hint(directives, fields)
    problems.sort(key=lambda problem: problem.line)
    return Checked(tuple(directives), fields, tuple(problems), tuple(warnings))


def check_denied(names: Collection[str]) -> None:
    """Raise ValueError for a name that is no option's long name, which would deny nothing."""
    if unknown := sorted(set(names) - LONG.keys()):
        raise ValueError(f"sbatch has no option {', '.join(f'--{name}' for name in unknown)}")


def with_flags(before: Fields, added: Fields) -> Fields:
    """Return the added fields. Flags of several options add up; of two that exclude each other, the later counts."""
    if "flags" not in added:
        return added
    excluded = {each for flag in added["flags"] for pair in OPPOSITE_FLAGS if flag in pair for each in pair}
    kept = (flag for flag in before.get("flags", ()) if flag not in excluded)
    return added | {"flags": (*kept, *added["flags"])}


def _with(before: Fields, directive: Directive, now: datetime) -> Fields:
    """Return the fields with those of a directive. Raises Untranslatable, also if it excludes one before it."""
    added = with_flags(before, directive.option.translate(OptionValue(directive.value or "", now)))
    together = {name: value for name, value in (before | added).items() if value is not None}
    for options in EXCLUSIVE:
        if sum(name in together for name in options) > 1:
            raise Untranslatable(f"{', '.join(options.values())} are mutually exclusive")
    return together


def _check_hint(directives: Collection[Directive], fields: Fields) -> Iterator[Problem]:
    """sbatch looks at a hint when it has read all options, and only where no other option says the same."""
    if HINT not in fields or not INSTEAD_OF_HINT.isdisjoint(fields):
        return
    last = next(each for each in reversed(tuple(directives)) if each.option.long == "hint")
    hints = fields[HINT].lower().split(",")
    if not all(hint in HINTS for hint in hints):
        yield last.problem(f"must be one of {', '.join(HINTS)}")
    elif MULTITHREAD in hints and hints[-1] != MULTITHREAD:
        yield last.problem(f"{MULTITHREAD} cannot stand before {hints[-1]}")


def _check_options(set_options: Collection[str], fields: Fields) -> None:
    """Raise Untranslatable for options that exclude each other, also where one of them is empty."""
    if "gres/gpu" in fields.get(GRES, "") and "gpus-per-node" in set_options:
        raise Untranslatable("--gres=gpu and --gpus-per-node are mutually exclusive")
    if {"exclusive", "oversubscribe"} <= set(set_options):
        raise Untranslatable("--exclusive and --oversubscribe are mutually exclusive")


def _check_text(script: str) -> Iterator[Problem]:
    if not script.startswith("#!"):
        yield Problem(1, "it must name an interpreter", "start the script with a line such as #!/bin/bash")
    for text, reason, hint in (
        ("\r\n", "it has a DOS line ending", "use Unix line endings"),
        ("\0", "it contains a NUL byte", "a script must be text"),
    ):
        if text in script:
            yield Problem(script[: script.index(text)].count("\n") + 1, reason, hint)
