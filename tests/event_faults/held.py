"""What a receiver holds: events by their ids, and how often it got each."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass
class Held:
    """The events of one receiver. It knows an event by its id, and what it is about by its subject."""

    name: str
    times: Counter[str] = field(default_factory=Counter)
    """Event id -> how often it came."""
    ids_of: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Subject -> the ids under which its event came. Each subject of a run has one event."""

    def take(self, event_id: str, subject: str) -> None:
        """Note an event."""
        self.times[event_id] += 1
        self.ids_of[subject].add(event_id)

    def lacks(self, published: Collection[str]) -> set[str]:
        """The subjects of which it has no event."""
        return set(published) - self.ids_of.keys()

    def has_all(self, published: Collection[str]) -> bool:
        """Whether it has an event of each of the subjects. Quick where it has not."""
        return len(self.ids_of) >= len(published) and not self.lacks(published)

    def counts(self, published: Collection[str]) -> Mapping[str, int]:
        """The counts that a run prints. All but `repeated` must be 0 at its end."""
        return {
            "missing": len(self.lacks(published)),
            "under_two_ids": sum(len(ids) > 1 for ids in self.ids_of.values()),
            "foreign": len(self.ids_of.keys() - set(published)),
            "repeated": self.times.total() - len(self.times),
        }
