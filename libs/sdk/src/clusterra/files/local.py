"""Local files: sources of uploads, and folders that no symlink and no path traversal leads out of."""

import hashlib
import os
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from clusterra.errors import UnsafeName

CHUNK_BYTES = 1024 * 1024
PART_PREFIX = ".clusterra-"
PART_SUFFIX = ".part"
READING = os.O_RDONLY | os.O_NONBLOCK
"""Without O_NONBLOCK, a named pipe would be waited for."""
type Transferred = Callable[[int], None]
"""Takes the number of bytes that were just copied; a negative one where they must be copied again."""


class Source:
    """The content of an upload, read in chunks at any offset, by several threads."""

    size: int

    def chunks(self, offset: int, size: int) -> Iterator[bytes]:
        """Some bytes, piece by piece. Fewer than `size` where the content has become shorter."""
        raise NotImplementedError

    def changed(self) -> bool:
        """Whether the content is another one than when it was opened."""
        return False

    def close(self) -> None:
        """Nothing is read afterwards."""

    def digest(self, offset: int, size: int) -> bytes:
        """The SHA-256 of some bytes."""
        found = hashlib.sha256()
        for piece in self.chunks(offset, size):
            found.update(piece)
        return found.digest()


class BytesSource(Source):
    """Bytes in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)
        self.size = len(content)

    def chunks(self, offset: int, size: int) -> Iterator[bytes]:
        """Some bytes, piece by piece."""
        for begin in range(offset, offset + size, CHUNK_BYTES):
            yield bytes(self._content[begin : min(begin + CHUNK_BYTES, offset + size)])


class FileSource(Source):
    """An open regular file."""

    def __init__(self, opened: Any) -> None:
        self._file = opened
        self._state = self._now()
        self.size = self._state[0]

    @classmethod
    def of(cls, path: Path) -> "FileSource":
        """Open a file. Raises OSError, also for what is no regular file."""
        return cls._regular(os.open(path, READING), path)

    @classmethod
    def below(cls, root: Path, names: tuple[str, ...]) -> "FileSource":
        """Open the file that names lead to below a folder, and follow no link on the way. Raises OSError."""
        with opened_folder(root, names[:-1], make=False) as folder:
            return cls._regular(folder.open(names[-1], READING), root.joinpath(*names))

    @classmethod
    def _regular(cls, fd: int, path: Path) -> "FileSource":
        opened = os.fdopen(fd, "rb", buffering=0)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            opened.close()
            raise OSError(f"{path} is not a file")
        return cls(opened)

    @property
    def modified(self) -> float:
        """The time of the last change, in seconds since 1970."""
        return self._state[1] / 1e9

    def _now(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns

    def chunks(self, offset: int, size: int) -> Iterator[bytes]:
        """Some bytes, piece by piece."""
        end = offset + size
        while offset < end and (piece := os.pread(self._file.fileno(), min(CHUNK_BYTES, end - offset), offset)):
            offset += len(piece)
            yield piece

    def changed(self) -> bool:
        """Whether it has another size or was written since it was opened."""
        return self._now() != self._state

    def close(self) -> None:
        """Close it."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder. What is named in it is never looked up elsewhere."""

    fd: int

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open a file of the folder, and never what a link leads to. Raises OSError."""
        return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=self.fd)

    def lstat(self, name: str) -> os.stat_result | None:
        """What is known of a name; None where it does not exist."""
        try:
            return os.lstat(name, dir_fd=self.fd)
        except FileNotFoundError:
            return None

    def replace(self, source: str, target: str) -> None:
        """Give a file another name, in place of what has it. Raises OSError."""
        os.replace(source, target, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def unlink(self, name: str) -> None:
        """Remove a file or a link."""
        os.unlink(name, dir_fd=self.fd)


@contextmanager
def opened_folder(root: Path, names: tuple[str, ...] = (), *, make: bool = True) -> Iterator[Folder]:
    """The folder below `root` that these names lead to. It is made if it does not exist, and no link is followed.

    Raises OSError for a link, or a file, in place of a folder.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
        yield Folder(fd)
    finally:
        os.close(fd)


def names_below(path: str, folder: str) -> tuple[str, ...]:
    """The names that lead from a folder of the bucket to a file in it. Raises UnsafeName.

    Does not trust the server: a name never leads out of the folder (path traversal).
    """
    prefix = f"{folder.rstrip('/')}/"
    if not path.startswith(prefix):
        raise UnsafeName("the list of a folder has a file of another folder")
    names = tuple(path.removeprefix(prefix).split("/"))
    for name in names:
        check_name(name)
    return names


def check_name(name: str) -> None:
    """Raises UnsafeName for what no file of this machine may be named."""
    hostile = name in ("", ".", "..") or any(each in name for each in "/\0") or not name.isprintable()
    if hostile or (name.startswith(PART_PREFIX) and name.endswith(PART_SUFFIX)):
        raise UnsafeName(f"no file of this machine may have the name {ascii(name)[:200]}")


def part_name(name: str) -> str:
    """The name of the file in which a download is kept until it is whole."""
    return f"{PART_PREFIX}{hashlib.sha256(os.fsencode(name)).hexdigest()[:24]}{PART_SUFFIX}"


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A regular file below a folder. `names` lead to it."""

    names: tuple[str, ...]
    size: int
    identity: tuple[int, int]
    """Its device and inode: on some file systems, different names lead to one file."""

    @property
    def relative(self) -> str:
        """Its path below the folder, with slashes, in Unicode's form NFC as the bucket has it."""
        return unicodedata.normalize("NFC", str(PurePosixPath(*self.names)))


def walked(root: Path) -> tuple[list[LocalFile], list[str]]:
    """All regular files below a folder, and the paths of what is neither a file nor a folder, such as links.

    No link is followed, also not one that takes the place of a folder meanwhile. Raises OSError for a folder that
    cannot be read.
    """
    found: list[LocalFile] = []
    left_out: list[str] = []

    def walk(folder: Folder, names: tuple[str, ...]) -> None:
        for name in sorted(os.listdir(folder.fd)):  # noqa: PTH208 - a Path has no open folder
            known = folder.lstat(name)
            if known is None or (name.startswith(PART_PREFIX) and name.endswith(PART_SUFFIX)):
                continue
            of_entry = (*names, name)
            if stat.S_ISDIR(known.st_mode):
                below = folder.open(name, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    walk(Folder(below), of_entry)
                finally:
                    os.close(below)
            elif stat.S_ISREG(known.st_mode):
                found.append(LocalFile(of_entry, known.st_size, (known.st_dev, known.st_ino)))
            else:
                left_out.append("/".join(of_entry))

    with opened_folder(root) as folder:
        walk(folder, ())
    return found, left_out
