"""Reads the marks of unfinished work in clusters. Their sort key is `<tenant>.<cluster>#<id>`."""

from collections.abc import Iterable

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.item import Item
from pydantic import ValidationError

log = structlog.get_logger()


def marked_places(marks: Iterable[Item]) -> tuple[tuple[ClusterRef, str], ...]:
    """The clusters and ids that the marks name. A malformed mark is logged and skipped."""
    places: list[tuple[ClusterRef, str]] = []
    for mark in marks:
        ref, _, name = mark.key.sk.rpartition("#")
        try:
            places.append((ClusterRef.from_key(ref), name))
        except ValidationError:
            log.error("mark_unreadable", partition=mark.key.pk, key=mark.key.sk)  # noqa: TRY400
    return tuple(places)
