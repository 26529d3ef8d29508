"""How the command line names files: `bucket:PATH` is in the cluster's bucket, everything else is on this machine."""

from dataclasses import dataclass
from typing import Annotated

import typer

from clusterra_cli.usage import WrongUsage

BUCKET_PREFIX = "bucket:"
"""What the paths of the bucket begin with."""
AREAS_HELP = "A folder of the bucket, below data/, scripts/, outputs/ or shared/."
PartSize = Annotated[
    int | None,
    typer.Option("--part-size", min=5, max=5120, metavar="MIB", help="Size of a part in MiB."),
]


@dataclass(frozen=True)
class CopyPath:
    """The source or the target of a copy. `remote`: it is in the bucket."""

    path: str
    remote: bool

    @property
    def text(self) -> str:
        """As the command line has it."""
        return f"{BUCKET_PREFIX}{self.path}" if self.remote else self.path

    @property
    def name(self) -> str:
        """Its last part."""
        return self.path.rstrip("/").rpartition("/")[2]

    def joined(self, name: str) -> "CopyPath":
        """The file that a copy makes: in a folder, whose path ends with a slash or is an area, one of the same name."""
        folder = self.path.endswith("/") or "/" not in self.path
        return CopyPath(f"{self.path.rstrip('/')}/{name}", self.remote) if folder else self


def copy_path(text: str) -> CopyPath:
    """What an argument names."""
    if text.startswith(BUCKET_PREFIX):
        return CopyPath(text.removeprefix(BUCKET_PREFIX), True)
    return CopyPath(text, False)


def require_one_in_bucket(source: CopyPath, target: CopyPath) -> None:
    """Raises WrongUsage for what is no copy to or from the bucket."""
    if not (source.remote or target.remote):
        raise WrongUsage(
            "neither the source nor the target is in the bucket", "clusterra files cp x.csv bucket:data/x.csv"
        )
    if "" in (source.path, target.path):
        raise WrongUsage("a path is empty", "clusterra files cp x.csv bucket:data/x.csv")


def part_bytes(part_size: int | None) -> int | None:
    """The option in bytes."""
    return None if part_size is None else part_size * 1024 * 1024
