"""`--export`: which variables of the given environment a job gets, and which are set in addition."""

from collections.abc import Iterable
from dataclasses import dataclass

DEFAULT_PATH = "PATH=/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Export:
    """The parsed option: `ALL` or `NONE`, the names to pass on and the values to set, as in sbatch."""

    all_variables: bool
    names: frozenset[str] = frozenset()
    values: tuple[tuple[str, str], ...] = ()
    text: str = ""
    """The option's value as it was given."""

    @classmethod
    def parse(cls, text: str) -> "Export":
        """Parse the option's value, such as `ALL,OMP_NUM_THREADS=4` or `PATH,HOME`."""
        items = [item for item in text.split(",") if item]
        words = {item.upper() for item in items if "=" not in item}
        pairs = (item.partition("=") for item in items if "=" in item)
        return cls(
            all_variables="ALL" in words or (not items),
            names=frozenset(item for item in items if "=" not in item and item.upper() not in {"ALL", "NONE", "NIL"}),
            values=tuple((name, value) for name, _, value in pairs),
            text=text,
        )

    def apply(self, environment: Iterable[str]) -> tuple[str, ...]:
        """Return the job's environment as `NAME=value` items, never empty: Slurm rejects an empty environment."""
        kept = [item for item in environment if self.all_variables or _name(item) in self.names]
        kept = [item for item in kept if _name(item) not in {name for name, _ in self.values}]
        kept.extend(f"{name}={value}" for name, value in self.values)
        return tuple(kept) or (DEFAULT_PATH,)


def _name(item: str) -> str:
    return item.partition("=")[0]
