"""`#SBATCH` lines: slurmrestd ignores them, so they are read here as sbatch reads them and become fields of the job.

What stands in the request wins over the script, as sbatch's command line wins over directives; of two directives
the later one wins. What cannot be translated is refused with its line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.rpc.slurm import JobDescription

from clusterra_proxy.sbatch.environment import Export
from clusterra_proxy.sbatch.options import EXPORT, GPUS_PER_NODE, GRES, LONG, SHORT, Fields, Option
from clusterra_proxy.sbatch.values import OptionValue, Untranslatable
from clusterra_proxy.slurmrestd.errors import Invalid

PREFIX = "#SBATCH"


@dataclass(frozen=True)
class Directive:
    """One option of a script, with the line it stands in (the first is 1)."""

    line: int
    option: Option
    value: str | None

    def invalid(self, reason: str) -> Invalid:
        """The error that names this line."""
        shown = self.option.name if self.value is None else f"{self.option.name}={self.value}"
        return _invalid_line(self.line, f"{shown}: {reason}")


def parse(script: str) -> tuple[Directive, ...]:
    """The options of a script in their order. sbatch stops at the first line that is a command.

    Raises Invalid naming the line for what sbatch would not read, or for an option that it does not have.
    """
    return tuple(directive for line, words in _directive_lines(script) for directive in _options(line, words))


def apply(script: str, job: JobDescription, *, now: datetime) -> JobDescription:
    """The job with the script's directives. `now` is what relative times count from.

    A field that has its default value counts as not given: a message carries those too. Raises Invalid naming the
    line of what cannot be translated.
    """
    fields: Fields = {}
    for directive in parse(script):
        try:
            fields |= directive.option.translate(OptionValue(directive.value or "", now))
        except Untranslatable as error:
            raise directive.invalid(str(error)) from None
        if "gres/gpu" in fields.get(GRES, "") and GPUS_PER_NODE in fields:
            raise directive.invalid("--gres=gpu and --gpus-per-node exclude each other")
    export: Export | None = fields.pop(EXPORT, None)
    if gres := ",".join(fields.pop(name) for name in (GRES, GPUS_PER_NODE) if name in fields):
        fields["tres_per_node"] = gres
    given = job.model_dump(exclude_defaults=True, exclude_none=True)
    if export is not None:
        given["environment"] = export.apply(job.environment)
    return JobDescription.model_validate(fields | given)


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
    """sbatch's own rules: quotes, backslashes, and a comment from the first bare `#`, also inside a word."""
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
            if option.value == "none" and equals:
                raise _invalid_line(line, f"--{option.long} takes no value")
            if option.value == "required" and not equals:
                given = _next_word(line, rest, option)
            yield Directive(line, option, given)
        elif word.startswith("-") and len(word) > 1 and word != "--":
            yield from _parse_short(line, word.removeprefix("-"), rest)
        else:
            raise _invalid_line(line, f"{word!r} is no option")


def _parse_short(line: int, letters: str, rest: Iterator[str]) -> Iterator[Directive]:
    while letters:
        option = SHORT.get(letters[0])
        if option is None:
            raise _invalid_line(line, f"sbatch has no option -{letters[0]}")
        letters = letters[1:]
        if option.value == "none":
            yield Directive(line, option, None)
        elif option.value == "optional":
            yield Directive(line, option, letters or None)
            return
        else:
            yield Directive(line, option, letters or _next_word(line, rest, option))
            return


def _find_long(line: int, name: str) -> Option:
    """An option by its name or, as getopt has it, by the beginning of one name only."""
    if name in LONG:
        return LONG[name]
    found = {id(option): option for known, option in LONG.items() if name and known.startswith(name)}
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise _invalid_line(line, f"sbatch has no option --{name}")
    raise _invalid_line(line, f"--{name} may be any of {', '.join(f'--{option.long}' for option in found.values())}")


def _next_word(line: int, rest: Iterator[str], option: Option) -> str:
    value = next(rest, None)
    if value is None:
        raise _invalid_line(line, f"{option.name} needs a value")
    return value


def _invalid_line(line: int, reason: str) -> Invalid:
    return Invalid(
        f"line {line} of the script: {reason}",
        hint="take the line out of the script, or say it in a field of the job",
    )
