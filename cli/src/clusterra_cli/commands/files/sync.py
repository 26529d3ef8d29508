"""`files sync`, and copies of whole folders."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.commands.files.paths import CopyPath, PartSize, copy_path, part_bytes, require_one_in_bucket
from clusterra_cli.commands.files.progress import local_errors, report, shown_progress
from clusterra_cli.connection import Cluster, Json, Quiet, Url, connected
from clusterra_cli.output import Output
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client
    from clusterra.files.progress import Progress
    from clusterra.files.trees import FolderReport, Sync


def add_to(command: typer.Typer) -> None:
    """Add this command."""
    command.command()(sync)


def sync(
    source: Annotated[str, typer.Argument(help="A folder here, or bucket:PATH.")],
    target: Annotated[str, typer.Argument(help="The folder that becomes equal, here or bucket:PATH.")],
    delete: Annotated[bool, typer.Option("--delete", help="Also delete what the source does not have.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print what would be done, and do nothing.")] = False,
    part_size: PartSize = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Copy the files of a folder that the other one lacks, or has with another content.

    Files are equal if their sizes and their checksums are. Where the bucket has no checksum, the source must not be
    newer.
    """
    from clusterra.files.trees import Sync

    from_path, to_path = copy_path(source), copy_path(target)
    require_one_in_bucket(from_path, to_path)
    silent = quiet or json or dry_run
    with connected(url, cluster) as client, local_errors(), shown_progress(quiet=silent) as progress:
        wanted = Sync(delete, dry_run)
        done = copy_folder(client, from_path, to_path, sync=wanted, part_size=part_size, progress=progress)
    report(Output(json, quiet), done, dry_run=dry_run)


def copy_folder(
    client: "Client",
    source: CopyPath,
    target: CopyPath,
    *,
    progress: "Progress",
    sync: "Sync | None" = None,
    part_size: int | None = None,
) -> "FolderReport":
    """Copy a folder. Raises WrongUsage for one that is not between here and the bucket."""
    if source.remote and target.remote:
        raise WrongUsage("both folders are in the bucket", "copy them file by file, without -r")
    if "-" in (source.path, target.path):
        raise WrongUsage("- is a stream and no folder")
    if source.remote:
        return client.files.download_folder(source.path.rstrip("/"), target.path, sync=sync, progress=progress)
    if not Path(source.path).is_dir():
        raise WrongUsage(f"{source.path} is not a folder")
    folder = target.path.rstrip("/")
    return client.files.upload_folder(
        source.path, folder, sync=sync, part_bytes=part_bytes(part_size), progress=progress
    )
