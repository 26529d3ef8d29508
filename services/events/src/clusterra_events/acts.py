"""Acts of admins that every cluster of a tenant was told: of those copies a feed of all clusters has one."""

from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import ClusterRef


class Acts:
    """The acts that a page has told. Copies have the same id but for the cluster in its beginning."""

    def __init__(self, clusters: int) -> None:
        self._several = clusters > 1
        self._told = set[str]()

    def note(self, ref: ClusterRef, sort_key: str, event: Event) -> None:
        """Remember an event that is told."""
        if self._several and isinstance(event.data, AdminFact):
            self._told.add(_act(ref, sort_key))

    def told(self, ref: ClusterRef, sort_key: str) -> bool:
        """Whether an item is of an act that is told already."""
        return self._several and _act(ref, sort_key) in self._told


def _act(ref: ClusterRef, sort_key: str) -> str:
    return sort_key.split("#", 2)[2].removeprefix(f"{ref.key}:")
