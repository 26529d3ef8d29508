"""Lists a folder, and finds the files in it that match glob patterns, within bounds of entries and time.

Only Python's own modules are imported: `as_user` starts for each request.
"""

import heapq
import json
import os
import stat
import time
from collections.abc import Iterator
from typing import Any

from clusterra_edge_agent.folders import patterns
from clusterra_edge_agent.folders.beneath import LINK, MAX_DEPTH, Refused, entries_of, opened_folder

MAX_ENTRIES = 100_000
"""The most entries that a request reads of folders: everybody can make more."""
MAX_PAGE_BYTES = 512 * 1024
"""The most JSON of a page of matches: it must fit into a message, and a path may have 16 KB, each six bytes in JSON."""
MAX_SECONDS = 20.0
"""How long a request reads folders."""


def list_folder(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """A page of a folder in the order of the names' bytes."""
    after, limit = bytes.fromhex(request["after"]), request["limit"]
    bounds = _ReadBounds()
    with opened_folder(root, request["path"]) as folder, entries_of(folder) as scan:
        names = (name for name in map(os.fsencode, (entry.name for entry in bounds.counted(scan))) if name > after)
        page = heapq.nsmallest(limit + 1, names)
        entries: list[dict[str, Any]] = []
        unreadable = 0
        for name in page[:limit]:
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                shown = name.decode()
            except (OSError, UnicodeDecodeError):
                unreadable += 1
                continue
            entries.append({"name": shown, "kind": _kind(found.st_mode), "size": found.st_size, "at": found.st_mtime})
    # In hexadecimal digits, as the last name need not be UTF-8.
    more = page[limit - 1].hex() if len(page) > limit else None
    return {"entries": entries, "unreadable": unreadable, "after": more}, []


def find_files(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """A page of the regular files below a folder that match a pattern, in the order of their paths' bytes.

    What matches and is no regular file is among the problems.
    """
    given: list[str] = request["patterns"]
    bounds = _ReadBounds()
    found: list[tuple[bytes, dict[str, Any]]] = []
    with opened_folder(root, request["folder"]) as folder:
        for path, status in _walk(folder, given, bounds):
            index = next((index for index, each in enumerate(given) if patterns.matches(each, path)), None)
            if index is None or path.encode() <= request["after"].encode():
                continue
            if status is None:
                detail = "its name is not UTF-8, or it cannot be looked at"
                found.append((path.encode(), {"problem": {"path": path, "detail": detail}}))
            elif stat.S_ISREG(status.st_mode):
                told = {
                    "path": path,
                    "size": status.st_size,
                    "modified_ns": status.st_mtime_ns,
                    "pattern": index,
                    "below": patterns.below_fixed_folder(given[index], path),
                }
                found.append((path.encode(), told))
            else:
                detail = LINK if stat.S_ISLNK(status.st_mode) else "it is no regular file"
                found.append((path.encode(), {"problem": {"path": path, "detail": detail}}))
    page = heapq.nsmallest(request["limit"] + 1, found, key=lambda each: each[0])
    fitting = _fitting(page[: request["limit"]])
    kept = [each for _, each in fitting]
    problems = [each["problem"] for each in kept if "problem" in each]
    last = fitting[-1][0].decode() if len(page) > len(fitting) else None
    return {"found": [each for each in kept if "path" in each], "problems": problems, "after": last}, []


def _fitting(page: list[tuple[bytes, dict[str, Any]]]) -> list[tuple[bytes, dict[str, Any]]]:
    """The first matches of a page that fit into a message. At least one, if there is any."""
    size = 0
    for number, (_, each) in enumerate(page):
        size += len(json.dumps(each))
        if size > MAX_PAGE_BYTES:
            return page[: max(number, 1)]
    return page


class _ReadBounds:
    """Bounds what one request reads of folders, in entries and seconds."""

    def __init__(self) -> None:
        self._left = MAX_ENTRIES
        self._ends = time.monotonic() + MAX_SECONDS

    def counted(self, entries: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """The entries, each counted. Raises Refused beyond the bounds."""
        for entry in entries:
            self._left -= 1
            if self._left < 0:
                raise Refused(f"the folder has more than {MAX_ENTRIES} entries")
            if time.monotonic() > self._ends:
                raise Refused(f"the folder was not read within {MAX_SECONDS:g} s")
            yield entry


def _walk(folder: int, given: list[str], bounds: _ReadBounds) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yields the paths, without folders, in a folder and in those below it that a pattern may match.

    The status is None for what cannot be looked at.
    """
    waiting = [""]
    while waiting:
        within = waiting.pop()
        try:
            with opened_folder(folder, within) as descriptor, entries_of(descriptor) as scan:
                for entry in bounds.counted(scan):
                    path = f"{within}/{entry.name}" if within else entry.name
                    shown = os.fsencode(path).decode(errors="replace")
                    try:
                        status = os.stat(entry.name, dir_fd=descriptor, follow_symlinks=False)
                    except OSError:
                        yield shown, None
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        deep = path.count("/") + 1 >= MAX_DEPTH
                        if shown == path and not deep and any(patterns.may_match_below(each, path) for each in given):
                            waiting.append(path)
                    else:
                        yield shown, status if shown == path else None
        except OSError:
            # A folder that the user may not read, or that is gone, has nothing for them.
            if not within:
                raise


def _kind(mode: int) -> str:
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"
