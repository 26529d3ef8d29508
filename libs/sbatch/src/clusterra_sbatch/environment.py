"""`--export`: which variables of the given environment a job gets, and which are set in addition."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

DEFAULT_PATH = "PATH=/usr/local/bin:/usr/bin:/bin"

_ALWAYS_KEPT = ("SLURM", "_SLURM_SPANK_OPTION_")
"""How the names of variables begin that sbatch passes on whatever the option says."""


@dataclass(frozen=True)
class Export:
    """The option's value, which is read as sbatch does it."""

    text: str

    def apply(self, environment: Iterable[str]) -> tuple[str, ...]:
        """Return the job's environment as `NAME=value` items, never empty: Slurm rejects an empty environment."""
        given = dict(item.partition("=")[::2] for item in environment)
        return tuple(f"{name}={value}" for name, value in self._exported(given).items()) or (DEFAULT_PATH,)

    def _exported(self, given: dict[str, str]) -> dict[str, str]:
        whole = self.text.upper()
        if whole == "ALL":
            return given
        exported: dict[str, str] = {}
        # Only alone are these two words no names.
        for item in () if whole in {"NONE", "NIL"} else _items(self.text):
            name, equals, value = item.partition("=")
            if item.upper() == "ALL":
                exported |= given
            elif equals:
                exported[name] = value
            elif name in given:
                exported[name] = given[name]
        return exported | {name: value for name, value in given.items() if name.startswith(_ALWAYS_KEPT)}


def _items(text: str) -> Iterator[str]:
    """Split the list at its commas outside of quotes. Only quotes around a whole item are taken off.

    A single quote counts within double quotes too, and the reverse. The rest after a quote without its end is one item.
    """
    start = 0
    single = double = False
    for at, character in enumerate(f"{text},"):
        if character == "'":
            single = not single
        elif character == '"':
            double = not double
        elif character == "," and (at == len(text) or not (single or double)):
            item = text[start:at]
            closed = not (single or double)
            yield item[1:-1] if closed and len(item) > 1 and item[0] in "'\"" and item[-1] == item[0] else item
            start = at + 1
