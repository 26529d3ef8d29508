"""Whole folders: copied, or made equal, in both directions. Others are copied also where one file cannot be.

A download writes beneath the chosen folder alone, whatever names the bucket has, and follows no link there.
"""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from stat import S_ISREG

from clusterra.errors import ClusterraError, UnsafeName
from clusterra.exchange import Steps, local, together
from clusterra.files.downloading import to_file
from clusterra.files.etags import agrees
from clusterra.files.listing import all_below, delete_many, is_known
from clusterra.files.local import FileSource, Folder, LocalFile, names_below, opened_folder, walked
from clusterra.files.place import Place
from clusterra.files.progress import SILENT, Progress
from clusterra.files.uploading import upload
from clusterra.models import StoredFile

FILES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Sync:
    """Copy only what differs. `delete`: also remove what the source lacks. `dry_run`: change nothing."""

    delete: bool = False
    dry_run: bool = False


@dataclass(slots=True)
class FolderReport:
    """What was done to the files of a folder; with a dry run, what would be. Paths are those in the bucket."""

    copied: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)
    """The paths of files that were not copied or deleted, each with the reason."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a folder is copied."""

    sync: Sync | None = None
    part_bytes: int | None = None
    progress: Progress = SILENT


DEFAULT_OPTIONS = Options()
type _Copy = tuple[str, int, Callable[[], Steps[None]]]
"""The path of a file in the bucket, its size, and what copies it."""


def download_folder(place: Place, folder: str, target: Path, options: Options = DEFAULT_OPTIONS) -> Steps[FolderReport]:
    """Copy a folder of the bucket to a folder of this machine, which is made if it does not exist."""
    report, copies, wanted = FolderReport(), list[_Copy](), set[tuple[str, ...]]()
    stored = yield from all_below(place, folder)
    if options.sync is None or not options.sync.dry_run:
        yield from local(partial(target.mkdir, parents=True, exist_ok=True))
    for each in stored:
        try:
            names = names_below(each.path, folder)
        except UnsafeName as error:
            report.problems.append((each.path, str(error)))
            continue
        wanted.add(names)
        opening = partial(opened_folder, target, names[:-1])
        if options.sync is not None and (yield from local(partial(_is_equal, each, target, names, upwards=False))):
            report.unchanged += 1
        else:
            copies.append((each.path, each.size, partial(_downloaded, place, each, (opening, names[-1]), options)))
    yield from _carried_out(copies, report, options)
    if options.sync is not None and options.sync.delete and not report.problems:
        for found in (yield from local(partial(_there, target))):
            if found.names not in wanted:
                report.deleted.append(f"{folder.rstrip('/')}/{found.relative}")
                if not options.sync.dry_run:
                    yield from local(partial(_unlink, target, found.names))
    return report


def upload_folder(place: Place, source: Path, folder: str, options: Options = DEFAULT_OPTIONS) -> Steps[FolderReport]:
    """Copy a folder of this machine to a folder of the bucket. Links and special files are left out, as problems."""
    report, copies = FolderReport(), list[_Copy]()
    there, left_out = yield from local(partial(walked, source))
    base = folder.rstrip("/")
    report.problems += [(f"{base}/{each}", "it is a link or no file") for each in left_out]
    stored = {} if options.sync is None else {each.path: each for each in (yield from all_below(place, base))}
    for found in there:
        path = f"{base}/{found.relative}"
        known = stored.pop(path, None)
        if known is not None and (yield from local(partial(_is_equal, known, source, found.names, upwards=True))):
            report.unchanged += 1
        else:
            copies.append((path, found.size, partial(_uploaded, place, source, found, path, options)))
    yield from _carried_out(copies, report, options)
    if options.sync is not None and options.sync.delete and not report.problems:
        report.deleted += stored
        if stored and not options.sync.dry_run:
            failed = yield from delete_many(place, tuple(stored))
            report.problems += [(each.path, each.reason) for each in failed]
    return report


def _carried_out(copies: list[_Copy], report: FolderReport, options: Options) -> Steps[None]:
    options.progress.planned(len(copies), sum(size for _, size, _ in copies))
    if options.sync is not None and options.sync.dry_run:
        report.copied += [path for path, _, _ in copies]
        return
    left = deque(copies)
    yield from together([_some(left, report, options) for _ in range(min(FILES_AT_ONCE, len(left)))])


def _some(left: deque[_Copy], report: FolderReport, options: Options) -> Steps[None]:
    while left:
        try:
            path, _, copy = left.popleft()
        except IndexError:
            return
        try:
            yield from copy()
        except (ClusterraError, OSError) as error:
            if isinstance(error, ClusterraError) and not is_known(error):
                raise
            report.problems.append((path, getattr(error, "strerror", None) or str(error)))
        else:
            report.copied.append(path)
            options.progress.finished(path)


def _downloaded(
    place: Place,
    known: StoredFile,
    target: tuple[Callable[[], AbstractContextManager[Folder]], str],
    options: Options,
) -> Steps[None]:
    yield from to_file(place, known, target, moved=options.progress.moved)


def _uploaded(place: Place, root: Path, found: LocalFile, path: str, options: Options) -> Steps[None]:
    source = yield from local(partial(FileSource.of, root.joinpath(*found.names), follow=False))
    try:
        yield from upload(place, path, source, part_bytes=options.part_bytes, moved=options.progress.moved)
    finally:
        source.close()


def _is_equal(stored: StoredFile, root: Path, names: tuple[str, ...], *, upwards: bool) -> bool:
    """Whether a file here is the one of the bucket: it has its size and its checksum.

    Where the ETag says nothing, the times decide: the source must not be newer than the copy.
    """
    path = root.joinpath(*names)
    try:
        known = path.lstat()
        if known.st_size != stored.size or not S_ISREG(known.st_mode):
            return False
        source = FileSource.of(path, follow=False)
    except OSError:
        return False
    try:
        agreed = agrees(stored.etag, source)
    finally:
        source.close()
    if agreed is not None:
        return agreed
    here, there = int(known.st_mtime), int(stored.modified_at.timestamp())
    return here <= there if upwards else there <= here


def _there(target: Path) -> list[LocalFile]:
    return walked(target)[0] if target.is_dir() else []


def _unlink(root: Path, names: tuple[str, ...]) -> None:
    with opened_folder(root, names[:-1], make=False) as folder:
        folder.unlink(names[-1])
