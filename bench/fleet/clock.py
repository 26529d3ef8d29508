"""Latencies of news: when it happened, when a poll first told it, and when it was answered by a desired state."""

from collections.abc import Sequence
from dataclasses import dataclass, field

GIVEN_UP_SECONDS = 60.0
"""News without an answer counts with this time, so that percentiles show it."""


@dataclass(slots=True)
class News:
    """A job that needs a worker which does not exist yet. Times are in seconds of one monotonic clock."""

    cluster: str
    happened_at: float
    told_at: float | None = None
    answered_at: float | None = None


@dataclass
class Latencies:
    """All news of one phase of the run, and the latest of each cluster."""

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

    def answered(self, cluster: str, at: float) -> None:
        """The desired state has what the news asks for."""
        if (entry := self._open.pop(cluster, None)) is not None:
            entry.answered_at = at

    def next_phase(self) -> "Latencies":
        """The latencies of the next phase, which begins with the news that is still open."""
        return Latencies(list(self._open.values()), dict(self._open))

    def figures(self, now: float) -> dict[str, float | int | None]:
        """Percentiles in milliseconds: from the first poll that told it, and from the change itself."""
        due = [entry for entry in self.news if entry.answered_at is not None or now - entry.happened_at > 1.0]
        told = [_elapsed(entry.told_at or entry.happened_at, entry.answered_at, now) for entry in due]
        whole = [_elapsed(entry.happened_at, entry.answered_at, now) for entry in due]
        return {
            "news": len(due),
            "unanswered": sum(entry.answered_at is None for entry in due),
            "p50_ms": percentile(told, 50),
            "p99_ms": percentile(told, 99),
            "from_change_p50_ms": percentile(whole, 50),
            "from_change_p99_ms": percentile(whole, 99),
        }


def _elapsed(since: float, answered_at: float | None, now: float) -> float:
    """An open one has waited until now at least."""
    return (answered_at if answered_at is not None else max(now, since + GIVEN_UP_SECONDS)) - since


def percentile(seconds: Sequence[float], percent: int) -> float | None:
    """The nearest-rank percentile in milliseconds; None without values."""
    ordered = sorted(seconds)
    return round(ordered[max(1, -(-len(ordered) * percent // 100)) - 1] * 1000, 1) if ordered else None
