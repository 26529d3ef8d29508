"""Latencies of news: when it happened, when a poll first told it, and when it was answered or needed no answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

GIVEN_UP_SECONDS = 60.0
"""News without an answer counts with this time, so that percentiles show it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A desired state that has what the news asks for. Times are in seconds since the epoch."""

    snapshot_at: float
    """When the proxy took the snapshot that it was decided from."""
    decided_at: float
    at: float
    """When it arrived here."""


@dataclass(slots=True)
class News:
    """A job that needs a worker which does not exist yet. Times are in seconds since the epoch."""

    cluster: str
    happened_at: float
    told_at: float | None = None
    answer: Answer | None = None
    served_at: float | None = None
    """When its job started on a worker that was there, so that it needed no answer."""

    @property
    def open(self) -> bool:
        """Whether it still waits for an answer."""
        return self.answer is None and self.served_at is None


@dataclass
class Latencies:
    """The news that happened in one phase of the run, and the open one of each cluster."""

    news: list[News] = field(default_factory=list)
    _open: dict[str, News] = field(default_factory=dict)

    def happened(self, cluster: str, at: float) -> None:
        """Something new in a cluster. Earlier news of that cluster that is still open stays unanswered."""
        self._open[cluster] = entry = News(cluster, at)
        self.news.append(entry)

    def told(self, cluster: str, at: float) -> None:
        """An answer of the stand-in had the news for the first time."""
        if (entry := self._open.get(cluster)) is not None and entry.told_at is None:
            entry.told_at = at

    def answered(self, cluster: str, answer: Answer) -> None:
        """The desired state has what the news asks for."""
        if (entry := self._open.pop(cluster, None)) is not None:
            entry.answer = answer

    def served(self, cluster: str, at: float) -> None:
        """Its job started on a worker that was there already: the news needs no answer any more."""
        if (entry := self._open.pop(cluster, None)) is not None:
            entry.served_at = at

    def next_phase(self) -> "Latencies":
        """The latencies of the next phase. News that is still open belongs to the phase in which it happened."""
        return Latencies([], dict(self._open))

    def settled(self, now: float) -> bool:
        """Whether no news is open, except for what has waited longer than GIVEN_UP_SECONDS."""
        return all(not entry.open or now - entry.happened_at > GIVEN_UP_SECONDS for entry in self.news)

    def figures(self, now: float) -> dict[str, float | int | None]:
        """Percentiles in milliseconds: from the first poll that told it, from the change itself, and of each part.

        Ask for them when they are settled: news of the last seconds would count as never answered.
        """
        due = self.news
        answered = [(entry, entry.answer) for entry in due if entry.answer is not None]
        parts = {
            "told_to_snapshot": [answer.snapshot_at - _told(entry) for entry, answer in answered],
            "snapshot_to_decided": [answer.decided_at - answer.snapshot_at for _, answer in answered],
            "decided_to_arrived": [answer.at - answer.decided_at for _, answer in answered],
        }
        whole = {
            "": [_elapsed(_told(entry), entry, now) for entry in due],
            "from_change_": [_elapsed(entry.happened_at, entry, now) for entry in due],
            **{f"{name}_": seconds for name, seconds in parts.items()},
        }
        return {
            "news": len(due),
            "unanswered": sum(entry.open for entry in due),
            "served": sum(entry.served_at is not None for entry in due),
            **{
                f"{name}p{percent}_ms": percentile(seconds, percent)
                for name, seconds in whole.items()
                for percent in (50, 99)
            },
        }


def _told(entry: News) -> float:
    return entry.happened_at if entry.told_at is None else entry.told_at


def _elapsed(since: float, entry: News, now: float) -> float:
    """Seconds until the news was answered or served. News that is open counts until now, and as given up at least."""
    over_at = entry.served_at if entry.answer is None else entry.answer.at
    return (max(now, since + GIVEN_UP_SECONDS) if over_at is None else max(over_at, since)) - since


def percentile(seconds: Sequence[float], percent: int) -> float | None:
    """The nearest-rank percentile in milliseconds; None without values."""
    ordered = sorted(seconds)
    return round(ordered[max(1, -(-len(ordered) * percent // 100)) - 1] * 1000, 1) if ordered else None
