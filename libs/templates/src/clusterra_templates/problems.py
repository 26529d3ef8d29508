"""What is wrong with a definition, or with what somebody wants rendered from it."""

import difflib
from collections.abc import Collection


def nearest(name: str, known: Collection[str]) -> str:
    """What to write in place of a name that does not exist: the one that is nearest, or one of all."""
    if near := difflib.get_close_matches(name[:100], known, 1):
        return f"did you mean {near[0]}?"
    return f"there is {', '.join(sorted(known))}" if known else "there is none"


class TemplateInvalid(ValueError):
    """A definition that cannot be used. The text names the line where it is known, and what to correct."""

    def __init__(self, reason: str, *, line: int | None = None) -> None:
        self.line = line
        super().__init__(reason if line is None else f"line {line}: {reason}")


class RenderRefused(ValueError):
    """A value, or a place for it, with which no script can be rendered. The text says what to change."""


class ValueRefused(RenderRefused):
    """A value of one parameter or input. `key` is its key."""

    def __init__(self, key: str, reason: str) -> None:
        self.key = key
        super().__init__(f"{key}: {reason}")
