"""`--export`: which of the given environment a job gets, and what is set besides."""

from collections.abc import Iterable
from dataclasses import dataclass

DEFAULT_PATH = "PATH=/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Export:
    """`ALL`, `NONE`, names to pass on and values to set, as sbatch has them."""

    all_variables: bool
    names: frozenset[str] = frozenset()
    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Export":
        """Read the option's value, such as `ALL,OMP_NUM_THREADS=4` or `PATH,HOME`."""
        items = [item for item in text.split(",") if item]
        words = {item.upper() for item in items if "=" not in item}
        pairs = (item.partition("=") for item in items if "=" in item)
        return cls(
            all_variables="ALL" in words or (not items),
            names=frozenset(item for item in items if "=" not in item and item.upper() not in {"ALL", "NONE", "NIL"}),
            values=tuple((name, value) for name, _, value in pairs),
        )

    def apply(self, environment: Iterable[str]) -> tuple[str, ...]:
        """The job's environment, as `NAME=value`. It is never empty: Slurm would refuse that."""
        kept = [item for item in environment if self.all_variables or _name(item) in self.names]
        kept = [item for item in kept if _name(item) not in {name for name, _ in self.values}]
        kept.extend(f"{name}={value}" for name, value in self.values)
        return tuple(kept) or (DEFAULT_PATH,)


def _name(item: str) -> str:
    return item.partition("=")[0]
