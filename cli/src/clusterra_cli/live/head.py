"""The head of the screen: how many jobs there are, whether the gateway answers, the fleet, and the costs."""

from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from clusterra_cli.live.feed import Feed
from clusterra_cli.live.records import Job
from clusterra_cli.live.state import State
from clusterra_cli.live.view import ShapeRow, View, counts, fleet
from clusterra_cli.output import money, one_line

MAX_SHAPES = 5
"""The lines for shapes; the rest is summed up in one."""


def head(feed: Feed, view: View, jobs: Sequence[Job], now: datetime) -> Text:
    """The lines above the jobs."""
    counted = ", ".join(f"{count} {phase}" for phase, count in counts(jobs).items())
    more = " (there are more jobs than are kept)" if feed.state.more else ""
    order = f"by {view.order}{', reversed' if view.reverse else ''}"
    only = [*sorted(view.states), *(each for each in (view.user or feed.state.user,) if each)]
    filtered = f"   only {one_line(' '.join(only))}" if only else ""
    lines = [
        Text(f"{now.astimezone():%H:%M:%S}   {counted}{more}   {order}{filtered}", "bold"),
        *([] if feed.away_since is None else [_away(feed, feed.away_since)]),
        Text(_costs(feed.state)),
        *map(Text, _fleet(fleet(feed.state))),
    ]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)


def _away(feed: Feed, since: datetime) -> Text:
    because = one_line(feed.away_because)
    return Text(
        f"THE GATEWAY IS AWAY since {since.astimezone():%H:%M:%S}: what is below may be old ({because})", "bold reverse"
    )


def _costs(state: State) -> str:
    prices = [each.usd_per_hour or 0.0 for each in fleet(state)]
    parts = [f"workers {money(sum(prices))} an hour"]
    if state.money.bill is not None and state.money.as_of is not None:
        parts.append(f"this month {money(state.money.bill)} at {state.money.as_of.astimezone():%H:%M:%S}")
    parts += [
        f"quota of {one_line(each.scope)} {one_line(each.name)}: {money(each.left)} of {money(each.limit)} left"
        for each in state.money.quotas[:3]
    ]
    return "   ".join(parts)


def _fleet(rows: Sequence[ShapeRow]) -> list[str]:
    if not rows:
        return ["no workers"]
    shown, rest = rows[:MAX_SHAPES], rows[MAX_SHAPES:]
    lines = [
        f"{one_line(each.shape):<18} {each.live:>4} of {_number(each.desired)} workers"
        + (f", {each.booting} boot" if each.booting else "")
        + f", {each.cpus_used} of {each.cpus} CPUs used, {money(each.usd_per_hour) or 'price unknown'} an hour"
        for each in shown
    ]
    if rest:
        lines.append(f"{len(rest)} more shapes: {sum(each.live for each in rest)} workers")
    return lines


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)
