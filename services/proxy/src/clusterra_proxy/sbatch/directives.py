"""`#SBATCH` directives: slurmrestd ignores them, so the proxy parses them as sbatch does and sets the job's fields.

The request takes precedence over the script, as sbatch's command line takes precedence over directives. Of two
directives, the later one wins. An untranslatable directive is rejected with its line number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.rpc.slurm import JobDescription

from clusterra_proxy.sbatch.environment import Export
from clusterra_proxy.sbatch.options import EXPORT, GPUS_PER_NODE, GRES, HINT, LONG, MULTITHREAD, SHORT, Fields, Option
from clusterra_proxy.sbatch.script_job import ScriptJob
from clusterra_proxy.sbatch.values import OptionValue, Untranslatable
from clusterra_proxy.slurmrestd.errors import Invalid

PREFIX = "#SBATCH"

EXCLUSIVE: tuple[dict[str, str], ...] = (
    {"memory_per_node": "--mem", "memory_per_cpu": "--mem-per-cpu", "memory_per_tres": "--mem-per-gpu"},
    {"cpus_per_task": "--cpus-per-task", "cpus_per_tres": "--cpus-per-gpu"},
)
"""Fields of which a job has one, with their options. Slurm would take one of them and say nothing."""

OPPOSITE_FLAGS = (
    ("KILL_INVALID_DEPENDENCY", "NO_KILL_INVALID_DEPENDENCY"),
    ("GRES_BINDING_ENFORCED", "GRES_BINDING_DISABLED"),
)


@dataclass(frozen=True)
class Applied:
    """A job with its script's directives, and what they say besides its fields."""

    job: ScriptJob
    export: str | None = None
    """The value of `--export`."""
    hint: str | None = None
    """The value of `--hint`, which sbatch ignores beside `--threads-per-core`."""
    gpus_per_node: str | None = None
    """The value of `--gpus-per-node` in the notation of `tres_per_node`, which has other resources too."""
    warnings: tuple[str, ...] = ()
    """The options that were accepted without their effect, with their lines."""


@dataclass(frozen=True)
class Directive:
    """One option of a script, with its line number, counted from 1."""

    line: int
    option: Option
    value: str | None

    def invalid(self, reason: str) -> Invalid:
        """Return the error that names this line and option."""
        shown = self.option.name if self.value is None else f"{self.option.name}={self.value}"
        return _invalid_line(self.line, f"{shown}: {reason}")


def parse(script: str) -> tuple[Directive, ...]:
    """Return the options of a script in order. Like sbatch, parsing stops at the first command.

    Raises Invalid, naming the line, for a malformed directive or an unknown option.
    """
    return tuple(directive for line, words in _directive_lines(script) for directive in _options(line, words))


def apply(script: str, job: JobDescription, *, now: datetime) -> Applied:
    """Return the job with the script's directives applied. Relative times count from `now`.

    A field with its default value counts as not given, because a message carries defaults too. Raises Invalid, naming
    the line, for an untranslatable directive.
    """
    fields: Fields = {}
    warnings: list[str] = []
    for directive in parse(script):
        try:
            fields |= with_flags(fields, directive.option.translate(OptionValue(directive.value or "", now)))
        except Untranslatable as error:
            raise directive.invalid(str(error)) from None
        if directive.option.warning:
            warnings.append(
                f"line {directive.line} of the script: {directive.option.name} is {directive.option.warning}"
            )
        if "gres/gpu" in fields.get(GRES, "") and GPUS_PER_NODE in fields:
            raise directive.invalid("--gres=gpu and --gpus-per-node are mutually exclusive")
        for options in EXCLUSIVE:
            if sum(name in fields for name in options) > 1:
                raise directive.invalid(f"{', '.join(options.values())} are mutually exclusive")
    export: Export | None = fields.pop(EXPORT, None)
    hint: str | None = fields.pop(HINT, None)
    if "threads_per_core" in fields or job.threads_per_core is not None:
        hint = None
    elif hint is not None and hint.lower() != MULTITHREAD:
        fields["threads_per_core"] = 1
    gpus_per_node: str | None = fields.get(GPUS_PER_NODE)
    if gres := ",".join(fields.pop(name) for name in (GRES, GPUS_PER_NODE) if name in fields):
        fields["tres_per_node"] = gres
    given = job.model_dump(exclude_defaults=True, exclude_none=True)
    for options in EXCLUSIVE:
        if options.keys() & given.keys():
            fields = {name: value for name, value in fields.items() if name not in options}
    if export is not None:
        given["environment"] = export.apply(job.environment)
    return Applied(
        ScriptJob.model_validate(fields | given),
        export=export.text if export else None,
        hint=hint,
        gpus_per_node=None if "tres_per_node" in given else gpus_per_node,
        warnings=tuple(warnings),
    )


def with_flags(before: Fields, added: Fields) -> Fields:
    """Return the added fields. Flags of several options add up; of two that exclude each other, the later counts."""
    if "flags" not in added:
        return added
    excluded = {each for flag in added["flags"] for pair in OPPOSITE_FLAGS if flag in pair for each in pair}
    kept = (flag for flag in before.get("flags", ()) if flag not in excluded)
    return added | {"flags": (*kept, *added["flags"])}


def _directive_lines(script: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(script.split("\n"), start=1):
        if line.startswith(PREFIX):
            rest = line.removeprefix(PREFIX)
            if rest and not rest[0].isspace():
                continue
            yield number, list(_split_words(number, rest))
        elif line.strip() and not line.lstrip().startswith("#"):
            return


def _split_words(line: int, text: str) -> Iterator[str]:
    """Split a line by sbatch's rules: quotes, backslashes, and a comment starts at any unquoted `#`, even in a word."""
    word: list[str] | None = None
    quote = ""
    escaped = False
    for character in text:
        if escaped:
            word, escaped = [*(word or []), character], False
        elif character == "\\":
            word, escaped = word or [], True
        elif quote:
            if character == quote:
                quote = ""
            else:
                word = [*(word or []), character]
        elif character in "\"'":
            word, quote = word or [], character
        elif character == "#":
            break
        elif character.isspace():
            if word is not None:
                yield "".join(word)
            word = None
        else:
            word = [*(word or []), character]
    if quote:
        raise _invalid_line(line, f"the quote {quote} is not closed")
    if word is not None:
        yield "".join(word)


def _options(line: int, words: list[str]) -> Iterator[Directive]:
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word.partition("=")
            option = _find_long(line, name.removeprefix("--"))
            given: str | None = value if equals else None
            if option.takes_value == "none" and equals:
                raise _invalid_line(line, f"--{option.long} takes no value")
            if option.takes_value == "required" and not equals:
                given = _next_word(line, rest, option)
            yield Directive(line, option, given)
        elif word.startswith("-") and len(word) > 1 and word != "--":
            yield from _parse_short(line, word.removeprefix("-"), rest)
        else:
            raise _invalid_line(line, f"{word!r} is not an option")


def _parse_short(line: int, letters: str, rest: Iterator[str]) -> Iterator[Directive]:
    while letters:
        option = SHORT.get(letters[0])
        if option is None:
            raise _invalid_line(line, f"sbatch has no option -{letters[0]}")
        letters = letters[1:]
        if option.takes_value == "none":
            yield Directive(line, option, None)
        elif option.takes_value == "optional":
            yield Directive(line, option, letters or None)
            return
        else:
            yield Directive(line, option, letters or _next_word(line, rest, option))
            return


def _find_long(line: int, name: str) -> Option:
    """Find an option by its name or, like getopt, by an unambiguous prefix of its name."""
    if name in LONG:
        return LONG[name]
    found = {id(option): option for known, option in LONG.items() if name and known.startswith(name)}
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise _invalid_line(line, f"sbatch has no option --{name}")
    raise _invalid_line(line, f"--{name} is ambiguous: {', '.join(f'--{option.long}' for option in found.values())}")


def _next_word(line: int, rest: Iterator[str], option: Option) -> str:
    value = next(rest, None)
    if value is None:
        raise _invalid_line(line, f"{option.name} needs a value")
    return value


def _invalid_line(line: int, reason: str) -> Invalid:
    return Invalid(
        f"line {line} of the script: {reason}",
        hint="remove the line from the script, or set a field of the job instead",
    )
