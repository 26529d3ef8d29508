"""Reads words as options and values by the rules of getopt_long(3), with which sbatch reads them.

All lines make one list of words: the value of the last option of a line may be the first word of the next line.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from clusterra_sbatch.problems import HINT, Problem
from clusterra_sbatch.words import Malformed, Word

_COMPARED = 60
"""How many characters of an unknown name are compared with the known ones."""

type TakesValue = Literal["none", "required", "optional"]


class Known(Protocol):
    """An option that may be found."""

    @property
    def name(self) -> str:
        """Its name in error texts."""

    @property
    def takes_value(self) -> TakesValue:
        """Whether it has a value. An optional one is in the same word."""


@dataclass(frozen=True)
class Table[Entry: Known]:
    """The options of a command, by their long names and by their letters."""

    command: str
    long: Mapping[str, Entry]
    short: Mapping[str, Entry]


@dataclass(frozen=True)
class Found[Entry: Known]:
    """An option and its value, with its line."""

    line: int
    option: Entry
    value: str | None


def read[Entry: Known](words: Sequence[Word], table: Table[Entry]) -> Iterator[Found[Entry] | Problem]:
    """Yield the options in order. The first problem of a line ends it, and reading goes on in the next line."""
    at = 0
    while at < len(words):
        word = words[at]
        try:
            if word.text == "--":
                if at + 1 < len(words):
                    yield _no_option(words[at + 1])
                return
            at += 1
            if word.text.startswith("--"):
                found = _long(word, table)
                if found.value is None and found.option.takes_value == "required":
                    found = Found(word.line, found.option, _next(words, at, found.option))
                    at += 1
                yield found
            elif word.text.startswith("-") and word.text != "-":
                for each in _short(word, table):
                    if each.value is None and each.option.takes_value == "required":
                        yield Found(word.line, each.option, _next(words, at, each.option))
                        at += 1
                    else:
                        yield each
            else:
                yield _no_option(word)
                at = _next_line(words, at, word.line)
        except Malformed as error:
            yield Problem(word.line, str(error), error.hint)
            at = _next_line(words, at, word.line)


def _no_option(word: Word) -> Problem:
    return Problem(word.line, f"{word.text!r} is not an option")


def _next_line(words: Sequence[Word], at: int, line: int) -> int:
    while at < len(words) and words[at].line == line:
        at += 1
    return at


def _next(words: Sequence[Word], at: int, option: Known) -> str:
    if at == len(words):
        hint = f"write it as {option.name}=VALUE" if option.name.startswith("--") else HINT
        raise Malformed(f"{option.name} needs a value", hint)
    return words[at].text


def _long[Entry: Known](word: Word, table: Table[Entry]) -> Found[Entry]:
    name, equals, value = word.text.removeprefix("--").partition("=")
    option = _by_name(name, table)
    if equals and option.takes_value == "none":
        raise Malformed(f"{option.name} takes no value")
    return Found(word.line, option, value if equals else None)


def _by_name[Entry: Known](name: str, table: Table[Entry]) -> Entry:
    """Find an option by its name or by a prefix that only it has."""
    if name in table.long:
        return table.long[name]
    # Two names of one option are no two options.
    found = {id(option): (known, option) for known, option in table.long.items() if known.startswith(name)}
    if len(found) == 1:
        return next(iter(found.values()))[1]
    if not found or not name:
        near = difflib.get_close_matches(name[:_COMPARED].lower(), table.long, 1)
        hint = f"did you mean --{near[0]}?" if near else "remove the option: `man sbatch` names all that there are"
        raise Malformed(f"{table.command} has no option --{name}", hint)
    raise Malformed(f"--{name} is ambiguous: {', '.join(f'--{known}' for known, _ in found.values())}")


def _short[Entry: Known](word: Word, table: Table[Entry]) -> Iterator[Found[Entry]]:
    letters = word.text.removeprefix("-")
    while letters:
        option = table.short.get(letters[0])
        if option is None:
            raise Malformed(f"{table.command} has no option -{letters[0]}")
        letters = letters[1:]
        if option.takes_value == "none":
            yield Found(word.line, option, None)
        else:
            yield Found(word.line, option, letters or None)
            return
