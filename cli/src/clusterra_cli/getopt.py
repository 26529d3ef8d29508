"""Reads a command line as GNU getopt_long does, on whose habits scripts rely.

Short options may be bundled (`-nu ada`) and have their value attached (`-uada`). Long names may be shortened as long as
they are unique. Options may follow other words, unless the first other word ends them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

type TakesValue = Literal["none", "required", "optional"]


class WrongOption(Exception):
    """An option that cannot be read. The text is getopt's. `name`: the long name of an option that does not exist."""

    def __init__(self, text: str, name: str = "") -> None:
        super().__init__(text)
        self.name = name


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one command."""

    command: str
    takes: Mapping[str, TakesValue]
    """By long names."""
    letters: Mapping[str, str]
    """The long names by short options."""
    same: Mapping[str, str]
    """Names that mean another one."""
    unsupported: frozenset[str] = frozenset()
    """Options that exist, and that this program cannot carry out."""
    whole: frozenset[str] = frozenset()
    """Long names that cannot be shortened."""


@dataclass(frozen=True, slots=True)
class Given:
    """An option by its long name, and its value."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """A command line that was read: options in their order, and all other words."""

    options: tuple[Given, ...]
    others: tuple[str, ...]

    def has(self, *names: str) -> bool:
        """Whether any of these options is given."""
        return any(each.name in names for each in self.options)

    def last(self, name: str, default: str | None = None) -> str | None:
        """The value of an option, of which the last one counts."""
        return next((each.value for each in reversed(self.options) if each.name == name), default)

    def items(self, name: str) -> tuple[str, ...]:
        """The values of an option that may be repeated and has lists with commas."""
        values = [each.value or "" for each in self.options if each.name == name]
        return tuple(item for value in values for item in split(value))


def options(
    command: str,
    *,
    none: str = "",
    required: str = "",
    optional: str = "",
    same: Mapping[str, str] | None = None,
    unsupported: str = "",
) -> Options:
    """A table of options, each written as `name` or `name:letter`."""
    takes: dict[str, TakesValue] = {}
    letters: dict[str, str] = {}
    kinds: Iterable[tuple[str, TakesValue]] = ((none, "none"), (required, "required"), (optional, "optional"))
    for text, kind in kinds:
        for name, _, letter in (each.partition(":") for each in text.split()):
            takes[name] = kind
            if letter:
                letters[letter] = name
    return Options(command, takes, letters, same or {}, frozenset(unsupported.split()))


def read(known: Options, arguments: Sequence[str], *, first_word_ends: bool = False) -> Words:
    """The options and the other words of a command line. Raises WrongOption."""
    given: list[Given] = []
    others: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            others += left
            break
        if not word.startswith("-") or word == "-":
            others.append(word)
            if first_word_ends:
                others += left
                break
            continue
        found = [_long(known, word[2:])] if word.startswith("--") else _letters(known, word[1:])
        last = found[-1]
        if last.value is None and known.takes[last.name] == "required":
            if not left:
                raise WrongOption(_lacks_value(word, known, last))
            found[-1] = Given(last.name, left.pop(0))
        given += [Given(known.same.get(each.name, each.name), each.value) for each in found]
    return Words(tuple(given), tuple(others))


def split(text: str) -> tuple[str, ...]:
    """The items of a list with commas, outside of brackets."""
    items, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            items.append(text[start:place])
            start = place + 1
    return tuple(each.strip() for each in (*items, text[start:]) if each.strip())


def _lacks_value(word: str, known: Options, given: Given) -> str:
    if word.startswith("--"):
        return f"option '--{given.name}' requires an argument"
    letter = next(letter for letter, name in known.letters.items() if name == given.name)
    return f"option requires an argument -- '{letter}'"


def _long(known: Options, text: str) -> Given:
    name, equals, value = text.partition("=")
    long = name if name in known.takes else _shortened(known, name, text)
    if equals and known.takes[long] == "none":
        raise WrongOption(f"option '--{long}' doesn't allow an argument")
    return Given(long, value if equals else None)


def _shortened(known: Options, name: str, text: str) -> str:
    found = [long for long in known.takes if name and long.startswith(name) and long not in known.whole]
    if len({known.same.get(long, long) for long in found}) == 1:
        return found[0]
    if found:
        possible = " ".join(f"'--{each}'" for each in found)
        raise WrongOption(f"option '--{text}' is ambiguous; possibilities: {possible}")
    raise WrongOption(f"unrecognized option '--{text}'", name)


def _letters(known: Options, letters: str) -> list[Given]:
    found: list[Given] = []
    while letters:
        letter, letters = letters[0], letters[1:]
        name = known.letters.get(letter)
        if name is None:
            raise WrongOption(f"invalid option -- '{letter}'")
        if known.takes[name] != "none":
            found.append(Given(name, letters or None))
            break
        found.append(Given(name))
    return found
