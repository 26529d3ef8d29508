"""`files`: the cluster's bucket from the command line: `ls`, `cp`, `rm`. `sync` is in a module of its own."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.commands.files import sync
from clusterra_cli.commands.files.paths import (
    AREAS_HELP,
    BUCKET_PREFIX,
    CopyPath,
    PartSize,
    copy_path,
    part_bytes,
    require_one_in_bucket,
)
from clusterra_cli.commands.files.progress import local_errors, report, shown_progress
from clusterra_cli.connection import Cluster, Json, Limit, Quiet, Url, connected
from clusterra_cli.output import Column, Output, moment, note, one_line
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client
    from clusterra.files.listing import Entry
    from clusterra.files.progress import Progress

Recursive = Annotated[bool, typer.Option("--recursive", "-r", help="A folder, with all below it.")]
_files = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Copy files to and from the cluster's bucket.")


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    for each in (ls, cp, rm):
        _files.command()(each)
    sync.add_to(_files)
    command.add_typer(_files, name="files")


def ls(
    path: Annotated[str, typer.Argument(help=AREAS_HELP)] = "",
    long: Annotated[bool, typer.Option("--long", "-l", help="Also the sizes and the times.")] = False,
    recursive: Recursive = False,
    limit: Limit = 1000,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """List a folder; without one, the areas. The names of folders end with a slash."""
    from itertools import islice

    from clusterra.files.listing import StoredFolder

    output = Output(json, quiet)
    folder = path.removeprefix(BUCKET_PREFIX).rstrip("/")
    with connected(url, cluster) as client:
        found = list(islice(client.files.list(folder, recursive=recursive, limit=limit + 1), limit + 1))
        if not found and folder:
            found = _alone(client, folder)
    if len(found) > limit:
        note("there are more files: --limit raises their number")
    found = found[:limit]

    def name(entry: "Entry") -> str:
        return f"{entry.path}/" if isinstance(entry, StoredFolder) else entry.path

    if json:
        output.document([{"path": name(each)} if isinstance(each, StoredFolder) else each for each in found])
    elif quiet or not long:
        output.ids(one_line(name(each)) for each in found)
    else:
        output.table(
            (Column("SIZE", right=True), Column("MODIFIED"), Column("PATH")),
            (
                ("", "", name(each))
                if isinstance(each, StoredFolder)
                else (each.size, moment(each.modified_at), each.path)
                for each in found
            ),
        )


def _alone(client: "Client", path: str) -> "list[Entry]":
    """The file of this path, as `ls` lists one; none for an area, which exists without files. Raises NotFound."""
    return [client.files.stat(path)] if "/" in path else []


def cp(
    source: Annotated[str, typer.Argument(help="A file here, bucket:PATH, or - for stdin.")],
    target: Annotated[str, typer.Argument(help="A file or folder here, bucket:PATH, or - for stdout.")],
    recursive: Recursive = False,
    part_size: PartSize = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Copy a file, or with -r a folder, to the cluster's bucket, from it, or within it.

    A copy that was interrupted goes on when the same command runs again.
    """
    from_path, to_path = copy_path(source), copy_path(target)
    require_one_in_bucket(from_path, to_path)
    output = Output(json, quiet)
    with connected(url, cluster) as client, local_errors(), shown_progress(quiet=quiet or json) as progress:
        if recursive:
            done = sync.copy_folder(client, from_path, to_path, part_size=part_size, progress=progress)
        else:
            copied = _copy_file(client, from_path, to_path, part_size, progress)
    if recursive:
        report(output, done)
    elif to_path.path != "-":
        output.document({"path": copied}) if json else (output.text(copied) if quiet else None)


def _copy_file(
    client: "Client", source: CopyPath, target: CopyPath, part_size: int | None, progress: "Progress"
) -> str:
    """Copy one file, and return what was made, as it is named on the command line."""
    if source.remote and target.remote:
        into = target.joined(source.name)
        client.files.copy(source.path, into.path, overwrite=True)
        return into.text
    if target.remote:
        if source.path == "-":
            if target.path.endswith("/"):
                raise WrongUsage("stdin has no name", "give the path of the file: bucket:data/x")
            client.files.upload(sys.stdin.buffer, target.path, part_bytes=part_bytes(part_size), progress=progress)
            return target.text
        if Path(source.path).is_dir():
            raise WrongUsage(f"{source.path} is a folder", "-r copies it with all below it")
        into = target.joined(source.name)
        client.files.upload(source.path, into.path, part_bytes=part_bytes(part_size), progress=progress)
        return into.text
    if target.path == "-":
        client.files.download(source.path, sys.stdout.buffer, progress=progress)
        sys.stdout.buffer.flush()
        return "-"
    file = Path(target.path)
    if file.is_dir() or target.path.endswith(os.sep):
        file = file / source.name
    client.files.download(source.path, file, progress=progress)
    return str(file)


def rm(
    paths: Annotated[list[str], typer.Argument(help="Files of the bucket, with or without bucket: before them.")],
    recursive: Recursive = False,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Delete files of the bucket; with -r folders with all below them."""
    output = Output(json, quiet)
    deleted: list[str] = []
    failed: list[tuple[str, str]] = []
    with connected(url, cluster) as client:
        for given in paths:
            path = given.removeprefix(BUCKET_PREFIX)
            if not recursive:
                _delete_file(client, path)
                deleted.append(path)
                continue
            below = [each.path for each in client.files.list(path.rstrip("/"), recursive=True)]
            if not below:
                client.files.delete(path)
                below = [path]
            not_deleted = client.files.delete_many(below)
            failed += [(each.path, each.reason) for each in not_deleted]
            deleted += sorted({*below} - {each.path for each in not_deleted})
    if json:
        output.document({"deleted": deleted, "problems": [{"path": path, "reason": why} for path, why in failed]})
    elif quiet:
        output.ids(deleted)
    else:
        note(f"{len(deleted)} files are deleted" if len(deleted) != 1 else "1 file is deleted")
    for path, why in failed:
        note(f"error: {path} was not deleted: {why}")
    if failed:
        raise typer.Exit(exit_codes.FAILED)


def _delete_file(client: "Client", path: str) -> None:
    """Delete one file. Raises WrongUsage for a folder, and NotFound."""
    from clusterra.errors import NotFound

    try:
        client.files.delete(path)
    except NotFound:
        if any(True for _ in client.files.list(path.rstrip("/"), limit=1)):
            raise WrongUsage(f"{path} is a folder", "-r deletes it with all below it") from None
        raise
