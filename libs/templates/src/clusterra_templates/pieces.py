"""What a template language yields: the author's text, and values between it. Nothing is quoted yet.

A language does not know where in a script a value stands. So it keeps the two apart, and `shell.placed` writes each
value as its place needs it.
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

from clusterra_templates.problems import RenderRefused

type Scalar = str | int | float | bool | None
type Value = Scalar | list["Value"] | dict[str, "Value"]
"""What a parameter may be, and everything that is computed from it."""

MAX_OUTPUT = 512 * 1024
"""The longest script, in characters: what a job may have."""
MAX_VALUE = 2 * MAX_OUTPUT
"""The most characters, and items of lists, of a value that a template computes."""
MAX_STEPS = 20_000
"""Rounds of all loops of one rendering together."""
MAX_SECONDS = 2.0


class Authored(str):
    """Text of the definition itself, such as the requirements of its runtime: no value that somebody gives."""

    __slots__ = ()


def authored(value: Value) -> Value:
    """A value of the definition, with all its texts marked as the author's."""
    match value:
        case str():
            return Authored(value)
        case list():
            return [authored(each) for each in value]
        case dict():
            return {name: authored(each) for name, each in value.items()}
        case _:
            return value


@dataclass(frozen=True, slots=True)
class Text:
    """Text of the author."""

    text: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A value that stands at this place."""

    text: str
    escaped: bool = False
    """Whether the author has put it into double quotes by a function: then a quote in it gets a backslash even where
    the shell reads none."""
    is_json: bool = False
    """Whether it is JSON."""
    vanishes: bool = False
    """Whether an empty value leaves nothing, not even an empty word."""
    authored: bool = False
    """Whether it is the author's own text. A program that it stands in is the author's, too."""


type Piece = Text | Placed


class RenderBounds:
    """Bounds one rendering in rounds of loops, characters and seconds. Its methods raise RenderRefused beyond them."""

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._room = MAX_OUTPUT
        self._ends = time.monotonic() + MAX_SECONDS

    def step(self) -> None:
        """Counts one round of a loop."""
        self._steps -= 1
        if self._steps < 0:
            raise RenderRefused(f"the loops of the template take more than {MAX_STEPS} rounds: use shorter lists")
        self.in_time()

    def in_time(self) -> None:
        """Refuses to go on when the time is over."""
        if time.monotonic() > self._ends:
            raise RenderRefused(f"the template takes longer than {MAX_SECONDS:g} s to render: make it simpler")

    def write(self, text: str) -> str:
        """Counts text that is written, and returns it."""
        self._room -= len(text)
        if self._room < 0:
            raise RenderRefused(f"the script is longer than {MAX_OUTPUT // 1024} KiB: keep data in files")
        return text


def shown(value: Value) -> str:
    """A value as scripts have it: `true` and `false`, numbers in decimal, lists and objects as JSON.

    Raises RenderRefused for null.
    """
    match value:
        case None:
            raise RenderRefused("a value that the template writes is null: give it, or give it a default")
        case bool():
            return "true" if value else "false"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case int() | str():
            return str(value)
        case list() | dict():
            return json.dumps(value, ensure_ascii=False, sort_keys=True)
        case _:
            raise RenderRefused("the template writes something that is no value: write one of its fields")


def bounded(size: int) -> None:
    """Refuses a value of this size before it is made: a few steps can make one that fills any memory."""
    if size > MAX_VALUE:
        raise RenderRefused(f"the template makes a value of more than {MAX_VALUE // 1024} KiB: keep data in files")


def replaced(text: str, old: str, new: str) -> str:
    """The text with `new` in place of `old`, which is not empty. Raises RenderRefused where it would be too large."""
    bounded(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def joined(pieces: Iterable[Piece]) -> str:
    """The text of all pieces, with values as they are."""
    return "".join(piece.text for piece in pieces)
