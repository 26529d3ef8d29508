"""Whole folders: copied, or made equal, in both directions. Others are copied also where one file cannot be.

A download writes beneath the chosen folder alone, whatever names the bucket has (path traversal), and follows no
symlink there. An upload follows none either.
"""

import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from clusterra.errors import ClusterraError, DeleteRefused, UnsafeName
from clusterra.exchange import Steps, each_of, local
from clusterra.files.bucket_files import BucketFiles
from clusterra.files.downloading import DownloadTarget, to_file
from clusterra.files.etags import USUAL_CUTS, agrees
from clusterra.files.listing import all_below, delete_many, is_known
from clusterra.files.local import FileSource, LocalFile, names_below, opened_folder, walked
from clusterra.files.progress import SILENT, Progress
from clusterra.files.uploading import cut_bytes, upload
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


def download_folder(
    bucket: BucketFiles, folder: str, target: Path, options: Options = DEFAULT_OPTIONS
) -> Steps[FolderReport]:
    """Copy a folder of the bucket to a folder of this machine, which is made if it does not exist.

    Raises DeleteRefused where the folder of the bucket is empty, or does not exist, and `delete` would remove all.
    """
    report, copies, wanted = FolderReport(), list[_Copy](), set[tuple[str, ...]]()
    base = _nfc(folder.rstrip("/"))
    stored, unreadable = yield from all_below(bucket, base)
    if _deletes(options):
        _require_some(stored, base)
        if unreadable:
            report.problems.append((base, f"{unreadable} objects have names that no path can have"))
    if options.sync is None or not options.sync.dry_run:
        yield from local(partial(target.mkdir, parents=True, exist_ok=True))
    for each in stored:
        try:
            names = names_below(each.path, base)
        except UnsafeName as error:
            report.problems.append((each.path, str(error)))
            continue
        wanted.add(names)
        equal = partial(_is_equal, each, target, names, upwards=False, options=options)
        if options.sync is not None and (yield from local(equal)):
            report.unchanged += 1
        else:
            into = DownloadTarget(partial(opened_folder, target, names[:-1]), names[-1])
            copies.append((each.path, each.size, partial(_download, bucket, each, into, options)))
    yield from _copy_all(copies, report, options)
    if _deletes(options) and not report.problems:
        for found in (yield from local(partial(_unwanted, target, wanted))):
            if not options.sync.dry_run:  # type: ignore[union-attr]
                yield from local(partial(_unlink, target, found.names))
            report.deleted.append(f"{base}/{found.relative}")
    return report


def upload_folder(
    bucket: BucketFiles, source: Path, folder: str, options: Options = DEFAULT_OPTIONS
) -> Steps[FolderReport]:
    """Copy a folder of this machine to a folder of the bucket. Links and special files are left out, as problems.

    Raises DeleteRefused where the folder of this machine is empty, and `delete` would remove all.
    """
    report, copies = FolderReport(), list[_Copy]()
    base = _nfc(folder.rstrip("/"))
    local_files, left_out = yield from local(partial(walked, source))
    report.problems += [(f"{base}/{each}", "it is a link or no file") for each in left_out]
    if _deletes(options):
        _require_some(local_files, str(source))
    stored = {} if options.sync is None else {_nfc(each.path): each for each in (yield from all_below(bucket, base))[0]}
    wanted = set[str]()
    for found in local_files:
        path = f"{base}/{found.relative}"
        if path in wanted:
            report.problems.append((path, "two files have this name, which differ in Unicode's form alone"))
            continue
        wanted.add(path)
        known = stored.get(path)
        if known is not None and (
            yield from local(partial(_is_equal, known, source, found.names, upwards=True, options=options))
        ):
            report.unchanged += 1
        else:
            copies.append((path, found.size, partial(_upload, bucket, source, found, path, options)))
    yield from _copy_all(copies, report, options)
    unwanted = [path for path in stored if path not in wanted]
    if _deletes(options) and unwanted and not report.problems:
        failed = () if options.sync.dry_run else (yield from delete_many(bucket, unwanted))  # type: ignore[union-attr]
        report.problems += [(each.path, each.reason) for each in failed]
        kept = {each.path for each in failed}
        report.deleted += [path for path in unwanted if path not in kept]
    return report


def _nfc(text: str) -> str:
    """A path as the bucket has it."""
    return unicodedata.normalize("NFC", text)


def _deletes(options: Options) -> bool:
    return options.sync is not None and options.sync.delete


def _require_some(files: list[StoredFile] | list[LocalFile], folder: str) -> None:
    if not files:
        raise DeleteRefused(f"{folder} has no files: all files of the target would be deleted")


def _copy_all(copies: list[_Copy], report: FolderReport, options: Options) -> Steps[None]:
    options.progress.planned(len(copies), sum(size for _, size, _ in copies))
    if options.sync is not None and options.sync.dry_run:
        report.copied += [path for path, _, _ in copies]
        return

    def copy_one(copy: _Copy) -> Steps[None]:
        path, _, act = copy
        try:
            yield from act()
        except (ClusterraError, OSError) as error:
            if isinstance(error, ClusterraError) and not is_known(error):
                raise
            report.problems.append((path, getattr(error, "strerror", None) or str(error)))
        else:
            report.copied.append(path)
            options.progress.finished(path)

    yield from each_of(copies, FILES_AT_ONCE, copy_one)


def _download(bucket: BucketFiles, known: StoredFile, target: DownloadTarget, options: Options) -> Steps[None]:
    yield from to_file(bucket, known, target, transferred=options.progress.transferred)


def _upload(bucket: BucketFiles, root: Path, found: LocalFile, path: str, options: Options) -> Steps[None]:
    source = yield from local(partial(FileSource.below, root, found.names))
    try:
        yield from upload(bucket, path, source, part_bytes=options.part_bytes, transferred=options.progress.transferred)
    finally:
        source.close()


def _is_equal(stored: StoredFile, root: Path, names: tuple[str, ...], *, upwards: bool, options: Options) -> bool:
    """Whether a local file is the one of the bucket: it has its size and its checksum.

    Where the ETag says nothing, the times decide: the source must not be newer than the copy. Upwards, a checksum that
    does not agree with any usual cut counts as another content: a needless copy does less harm than a missing one.
    """
    try:
        source = FileSource.below(root, names)
    except OSError:
        return False
    try:
        if source.size != stored.size:
            return False
        own = () if options.part_bytes is None else (cut_bytes(options.part_bytes, source.size),)
        agreed = agrees(stored.etag, source, (*own, *USUAL_CUTS), otherwise=False if upwards else None)
        if agreed is not None:
            return agreed
        local_seconds, bucket_seconds = int(source.modified), int(stored.modified_at.timestamp())
        return local_seconds <= bucket_seconds if upwards else bucket_seconds <= local_seconds
    finally:
        source.close()


def _unwanted(target: Path, wanted: set[tuple[str, ...]]) -> list[LocalFile]:
    """The files of a folder that none of these names leads to.

    Names alone do not decide: a file system may keep them in another form, or take capital and small letters as equal.
    """
    if not target.is_dir():
        return []
    identities = set[tuple[int, int]]()
    for names in wanted:
        with suppress(OSError):
            known = target.joinpath(*names).lstat()
            identities.add((known.st_dev, known.st_ino))
    return [
        each
        for each in walked(target)[0]
        if each.identity not in identities and tuple(each.relative.split("/")) not in wanted
    ]


def _unlink(root: Path, names: tuple[str, ...]) -> None:
    with opened_folder(root, names[:-1], make=False) as folder:
        folder.unlink(names[-1])
