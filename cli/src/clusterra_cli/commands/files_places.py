"""How the command line names files: `cluster:PATH` is in the cluster's bucket, and everything else is here."""

from dataclasses import dataclass
from typing import Annotated

import typer

from clusterra_cli.usage import WrongUsage

Bucket = "cluster:"
"""What the paths of the bucket begin with."""
FileAreas = "A folder of the bucket, below data/, scripts/, outputs/ or shared/."
PartSize = Annotated[
    int | None,
    typer.Option("--part-size", min=5, max=5120, metavar="MIB", help="Send larger files in parts of so many MiB."),
]


@dataclass(frozen=True)
class Side:
    """The source or the target of a copy."""

    path: str
    remote: bool

    @property
    def text(self) -> str:
        """As the command line has it."""
        return f"{Bucket}{self.path}" if self.remote else self.path

    @property
    def name(self) -> str:
        """Its last part."""
        return self.path.rstrip("/").rpartition("/")[2]

    def joined(self, name: str) -> "Side":
        """The file that a copy makes: in a folder, whose path ends with a slash or is an area, one of the same name."""
        folder = self.path.endswith("/") or "/" not in self.path
        return Side(f"{self.path.rstrip('/')}/{name}", self.remote) if folder else self


def side(text: str) -> Side:
    """What an argument names."""
    if text.startswith(Bucket):
        return Side(text.removeprefix(Bucket), True)
    return Side(text, False)


def clash(here: Side, there: Side) -> None:
    """Raises WrongUsage for what is no copy to or from the bucket."""
    if not (here.remote or there.remote):
        raise WrongUsage(
            "neither the source nor the target is in the bucket", "clusterra files cp x.csv cluster:data/x.csv"
        )
    if "" in (here.path, there.path):
        raise WrongUsage("a path is empty", "clusterra files cp x.csv cluster:data/x.csv")


def part_bytes(part_size: int | None) -> int | None:
    """The option in bytes."""
    return None if part_size is None else part_size * 1024 * 1024
