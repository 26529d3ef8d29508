"""`top --json`: one line with everything, then a line for each thing that changed."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from clusterra_cli.live.feed import Feed
from clusterra_cli.live.records import Job
from clusterra_cli.live.state import State
from clusterra_cli.live.view import View, fleet, shown


class Changes:
    """Compares the state with what was printed before. Only jobs of the view are printed."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._before: State | None = None
        self._jobs: Mapping[str, Job] = {}
        self._away: datetime | None = None

    def of(self, feed: Feed) -> Iterator[dict[str, Any]]:
        """The lines for what has changed since the last call."""
        state, now = feed.state, datetime.now(UTC)
        jobs = {each.job_id: each for each in shown(state, self._view, now)}
        if feed.away_since != self._away:
            self._away = feed.away_since
            yield {"kind": "connection", "away_since": _plain(self._away), "error": feed.away_because or None}
        if self._before is None:
            yield {
                "kind": "snapshot",
                "jobs": [_plain(asdict(each)) for each in jobs.values()],
                "more": state.more,
                "fleet": [asdict(each) for each in fleet(state)],
                "money": _money(state),
            }
        else:
            yield from self._changed(state, jobs)
        self._before, self._jobs = state, jobs

    def _changed(self, state: State, jobs: Mapping[str, Job]) -> Iterator[dict[str, Any]]:
        for job_id, job in jobs.items():
            if self._jobs.get(job_id) != job:
                yield {"kind": "job", "job": _plain(asdict(job))}
        for job_id in self._jobs:
            if job_id not in jobs:
                yield {"kind": "job_left", "job_id": job_id}
        before = self._before
        if before is None or fleet(state) != fleet(before):
            yield {"kind": "fleet", "fleet": [asdict(each) for each in fleet(state)]}
        if before is None or state.money != before.money:
            yield {"kind": "money", "money": _money(state)}


def _money(state: State) -> dict[str, Any]:
    money = state.money
    return {
        "month_usd": money.bill,
        "as_of": _plain(money.as_of),
        "quotas": [asdict(each) for each in money.quotas],
    }


def _plain(value: Any) -> Any:
    """Times as JSON has them."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value.isoformat() if isinstance(value, datetime) else value
