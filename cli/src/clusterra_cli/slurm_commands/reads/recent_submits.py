"""The jobs that this machine submitted a moment ago, which the gateway's list may not have yet.

A cluster may have several replicas of the proxy. The list comes from the one that watches the cluster, and is some
seconds old where another one took the submit. Each submit is an empty file whose name has all that is known, so that
many processes note and read submits at once without a lock. Nothing fails where these files cannot be written.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Protocol

from clusterra.context import path

RECENT_SECONDS = 120
"""The gateway's list is never older: the proxy keeps one for 30 s at most, and for as long while it reads the next."""
MAX_SUBMITS = 10_000
"""The most files that are looked at."""
_NAME = re.compile(r"([0-9]{10})-([0-9a-f]{16})-([1-9][0-9]{0,9})")


class Cluster(Protocol):
    """A cluster of a gateway."""

    @property
    def url(self) -> str:
        """The address of the gateway."""

    @property
    def cluster(self) -> str:
        """The id of the cluster."""


def note_submit(of: Cluster, job_id: str) -> None:
    """Remember a job, and forget those that were submitted long ago."""
    with suppress(OSError):
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, age, _, _ in _submits(folder):
            if not 0 <= age < RECENT_SECONDS:
                (folder / name).unlink(missing_ok=True)
        name = f"{int(time.time()):010}-{_mark(of)}-{job_id}"
        if _NAME.fullmatch(name):
            (folder / name).touch(mode=0o600)


def recent_submits(of: Cluster) -> list[int]:
    """The ids of the jobs that were submitted to this cluster from here a moment ago, the newest first."""
    with suppress(OSError):
        if found := list(_submits(_folder())):
            mark = _mark(of)
            jobs = (job for _, age, cluster, job in found if cluster == mark and 0 <= age < RECENT_SECONDS)
            return sorted(jobs, reverse=True)
    return []


def _submits(folder: Path) -> Iterator[tuple[str, float, str, int]]:
    """The name, the age in seconds, the mark of the cluster and the job of each file. Raises OSError."""
    now = int(time.time())
    with os.scandir(folder) as names:
        for each in islice(names, MAX_SUBMITS):
            if (found := _NAME.fullmatch(each.name)) is not None:
                yield each.name, now - int(found[1]), found[2], int(found[3])


def _folder() -> Path:
    return path().with_name("recent-submits")


def _mark(of: Cluster) -> str:
    return sha256(f"{of.url}\n{of.cluster}".encode()).hexdigest()[:16]
