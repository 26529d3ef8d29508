"""The file in which a download is kept until it is whole, with a record of the ranges that are there.

Behind the content it has a line with the version of the file in the bucket, and a byte for each range. So a download
that was interrupted goes on, unless the file in the bucket has become another one. An atomic rename gives it its name.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import stat

from clusterra.errors import FileChanged
from clusterra.files.etags import plain_md5
from clusterra.files.local import CHUNK_BYTES, PART_PREFIX, PART_SUFFIX, Folder, part_name
from clusterra.models import StoredFile

RANGE_BYTES = 16 * 1024 * 1024
_DONE = b"\x01"
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


class PartFile:
    """The part file of one download. Its ranges are written by several threads, each range by one."""

    def __init__(self, folder: Folder, name: str, known: StoredFile, *, resume: bool = True) -> None:
        """Open it, or begin it anew. Raises OSError, also while another process downloads the same file."""
        self._folder = folder
        self._name = name
        self._part = part_name(name)
        self._known = known
        self._fd = self._locked()
        try:
            self._head = json.dumps([known.etag, known.size, RANGE_BYTES]).encode() + b"\n"
            self.done = self._done() if resume else set()
            if not self.done:
                self._begin()
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def count(self) -> int:
        """The number of ranges."""
        return -(-self._known.size // RANGE_BYTES)

    def bounds(self, number: int) -> tuple[int, int]:
        """Where a range begins and ends."""
        begin = number * RANGE_BYTES
        return begin, min(begin + RANGE_BYTES, self._known.size)

    def write(self, piece: bytes, offset: int) -> None:
        """Write some bytes of a range. Raises OSError."""
        view = memoryview(piece)
        while view:
            written = os.pwrite(self._fd, view, offset)
            view, offset = view[written:], offset + written

    def complete(self, number: int) -> None:
        """Note that a range is there. It is on the disk before the note is."""
        os.fsync(self._fd)
        os.pwrite(self._fd, _DONE, self._known.size + len(self._head) + number)
        self.done.add(number)

    def finish(self, *, check: bool) -> None:
        """Give the file its name, once it is whole. `check`: the ETag is the MD5 of the content. Raises FileChanged."""
        digest = plain_md5(self._known.etag) if check else None
        if digest is not None and digest != self._md5():
            self._begin()  # nothing of it is right
            raise FileChanged(f"{self._known.path} does not have the checksum that the bucket reports: copy it again")
        os.ftruncate(self._fd, self._known.size)
        # The time of the file in the bucket, by which `sync` compares files whose ETag says nothing.
        modified = self._known.modified_at.timestamp()
        os.utime(self._fd, (modified, modified))
        os.fchmod(self._fd, self._usual_mode())
        os.fsync(self._fd)
        self._folder.replace(self._part, self._name)

    def close(self) -> None:
        """Close it. What it has stays there."""
        os.close(self._fd)

    def _locked(self) -> int:
        """The part file, which no other process has. One that another has just finished is no part file any more."""
        while True:
            fd = self._folder.open(self._part, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                self._lock(fd)
                found, opened = self._folder.lstat(self._part), os.fstat(fd)
                if found is not None and os.path.samestat(found, opened):
                    self._require_own(opened)
                    return fd
            except BlockingIOError:
                os.close(fd)
                raise OSError(f"another program downloads {self._name!a} to the same place") from None
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def _usual_mode(self) -> int:
        """The mode of new files in the folder: only a new file has what the umask and the folder make of it."""
        name = f"{PART_PREFIX}{secrets.token_hex(12)}{PART_SUFFIX}"
        fd = self._folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            return stat.S_IMODE(os.fstat(fd).st_mode)
        finally:
            os.close(fd)
            self._folder.unlink(name)

    @staticmethod
    def _lock(fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:  # some network file systems
                raise

    def _require_own(self, opened: os.stat_result) -> None:
        """Raises OSError for a file that somebody else has made or can write: its content may be theirs."""
        writable = opened.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if opened.st_uid != os.geteuid() or opened.st_nlink != 1 or not stat.S_ISREG(opened.st_mode) or writable:
            raise OSError(f"{self._part} is not this download's own file: remove it")

    def _done(self) -> set[int]:
        kept = os.pread(self._fd, len(self._head) + self.count, self._known.size)
        if len(kept) != len(self._head) + self.count or not kept.startswith(self._head):
            return set()
        flags = kept[len(self._head) :]
        return {number for number in range(self.count) if flags[number : number + 1] == _DONE}

    def _begin(self) -> None:
        os.ftruncate(self._fd, 0)
        self.done = set()
        tail = self._head + bytes(self.count)
        os.ftruncate(self._fd, self._known.size + len(tail))
        self.write(tail, self._known.size)

    def _md5(self) -> str:
        found, offset = hashlib.md5(usedforsecurity=False), 0
        while offset < self._known.size:
            piece = os.pread(self._fd, min(CHUNK_BYTES, self._known.size - offset), offset)
            if not piece:
                break
            found.update(piece)
            offset += len(piece)
        return found.hexdigest()
