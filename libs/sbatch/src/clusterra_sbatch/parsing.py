"""Splits a script's `#SBATCH` lines into options and values, by sbatch's rules."""

from collections.abc import Iterator
from dataclasses import dataclass

from clusterra_sbatch.options import LONG, SHORT, Option
from clusterra_sbatch.problems import InvalidScript, Problem

PREFIX = "#SBATCH"


@dataclass(frozen=True)
class Directive:
    """One option of a script, with its line number, counted from 1."""

    line: int
    option: Option
    value: str | None

    def problem(self, reason: str) -> Problem:
        """Return the problem that names this line and option."""
        shown = self.option.name if self.value is None else f"{self.option.name}={self.value}"
        return Problem(self.line, f"{shown}: {reason}")


def parse(script: str) -> tuple[Directive, ...]:
    """Return the options of a script in order. Like sbatch, parsing stops at the first command.

    Raises InvalidScript, naming the lines, for malformed directives and unknown options.
    """
    found = tuple(scan(script))
    if problems := [each for each in found if isinstance(each, Problem)]:
        raise InvalidScript(problems)
    return tuple(each for each in found if isinstance(each, Directive))


def scan(script: str) -> Iterator[Directive | Problem]:
    """Yield the options of a script in order. A line is read up to its first problem."""
    for number, line in enumerate(script.split("\n"), start=1):
        if line.startswith(PREFIX):
            rest = line.removeprefix(PREFIX)
            if rest and not rest[0].isspace():
                continue
            try:
                yield from _options(number, list(_split_words(rest)))
            except _Malformed as error:
                yield Problem(number, str(error))
        elif line.strip() and not line.lstrip().startswith("#"):
            return


class _Malformed(ValueError):
    """A directive that sbatch could not read; the text gives the reason."""


def _split_words(text: str) -> Iterator[str]:
    """Split a line by sbatch's rules: quotes, backslashes, and a comment starts at any unquoted `#`, even in a word."""
    word: list[str] | None = None  # appended to in place: a line may have half a million characters
    quote = ""
    escaped = False
    for character in text:
        if not (escaped or quote):
            if character == "#":
                break
            if character.isspace():
                if word is not None:
                    yield "".join(word)
                word = None
                continue
        if word is None:
            word = []
        if escaped:
            word.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        elif quote:
            if character == quote:
                quote = ""
            else:
                word.append(character)
        elif character in "\"'":
            quote = character
        else:
            word.append(character)
    if quote:
        raise _Malformed(f"the quote {quote} is not closed")
    if word is not None:
        yield "".join(word)


def _options(line: int, words: list[str]) -> Iterator[Directive]:
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word.partition("=")
            option = _find_long(name.removeprefix("--"))
            given: str | None = value if equals else None
            if option.takes_value == "none" and equals:
                raise _Malformed(f"--{option.long} takes no value")
            if option.takes_value == "required" and not equals:
                given = _next_word(rest, option)
            yield Directive(line, option, given)
        elif word.startswith("-") and len(word) > 1 and word != "--":
            yield from _parse_short(line, word.removeprefix("-"), rest)
        else:
            raise _Malformed(f"{word!r} is not an option")


def _parse_short(line: int, letters: str, rest: Iterator[str]) -> Iterator[Directive]:
    while letters:
        option = SHORT.get(letters[0])
        if option is None:
            raise _Malformed(f"sbatch has no option -{letters[0]}")
        letters = letters[1:]
        if option.takes_value == "none":
            yield Directive(line, option, None)
        elif option.takes_value == "optional":
            yield Directive(line, option, letters or None)
            return
        else:
            yield Directive(line, option, letters or _next_word(rest, option))
            return


def _find_long(name: str) -> Option:
    """Find an option by its name or, like getopt, by an unambiguous prefix of its name."""
    if name in LONG:
        return LONG[name]
    found = {id(option): option for known, option in LONG.items() if name and known.startswith(name)}
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise _Malformed(f"sbatch has no option --{name}")
    raise _Malformed(f"--{name} is ambiguous: {', '.join(f'--{option.long}' for option in found.values())}")


def _next_word(rest: Iterator[str], option: Option) -> str:
    value = next(rest, None)
    if value is None:
        raise _Malformed(f"{option.name} needs a value")
    return value
