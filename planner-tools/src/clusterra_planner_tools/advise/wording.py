"""How amounts are written for people, in the report and on a terminal."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from clusterra_planner_tools.advise.results import Advice, Fixed, Left, OnDemand, Waits

_MONTH_DAYS = 30.0
_MENTIONED = 0.02
POLICY_NAMES = {
    "packing": "packing (the default)",
    "family": "family",
    "one-worker-per-job": "a worker for each job",
    "first-fit": "first fit",
}


def usd(amount: float) -> str:
    """US dollars without cents where they say nothing."""
    return f"${amount:,.0f}" if amount >= 100 else f"${amount:,.2f}"


def on_demand_usd(one: OnDemand) -> str:
    """The cost, with its margin if it is an estimate."""
    return f"{usd(one.usd)} ± {one.usd_margin / one.usd:.0%}" if one.usd_margin and one.usd else usd(one.usd)


def per_month(amount: float, advice: Advice) -> str:
    """An amount per 30 days; empty for a time of less than a week, which says nothing of a month."""
    return usd(amount / advice.days * _MONTH_DAYS) if advice.days >= 7 else ""


def span(seconds: float) -> str:
    """A wait in the unit that fits, such as `45 s`, `12 min`, `3.5 h`, `2.0 days`."""
    for most, size, unit in ((100, 1, "s"), (6000, 60, "min"), (172800, 3600, "h")):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}" if size < 3600 else f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86400:.1f} days"


def day(moment: float, advice: Advice, zone: ZoneInfo | None = None) -> str:
    """A day of the input; days from its beginning where it has no dates."""
    if not advice.dated:
        return f"day {(moment - advice.begin) / 86400:.0f}"
    return datetime.fromtimestamp(moment, zone or UTC).strftime("%Y-%m-%d")


def nodes(fleet: Fixed) -> str:
    """The nodes of a fixed fleet, such as `88×compute-xlarge + 20×memory-xlarge`."""
    return " + ".join(f"{each.nodes:,}×{each.shape}" for each in fleet.groups)


def number(amount: float) -> str:
    """A count or an amount of hours."""
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:,.2g}"


def headline(advice: Advice) -> str:
    """The answer in one sentence."""
    best = advice.on_demand[0]
    text = f"On demand this work costs {on_demand_usd(best)}"
    if month := per_month(best.usd, advice):
        text += f" ({month} a month)"
    fleet = same_waits(advice)
    if fleet is not None and best.usd:
        ratio = fleet.usd / best.usd
        compared = f"{ratio:.1f} times as much" if ratio >= 1.05 else f"{ratio:.0%} of that"
        text += f". A fixed fleet with the same waits costs {compared}: {usd(fleet.usd)} for {nodes(fleet)}"
    missing = sum(each.cpu_hours or 0.0 for each in advice.misfits)
    share = missing / (missing + advice.cpu_hours)
    # What no shape holds is in neither price.
    return text + (
        f". Work that no shape holds, {share:.0%} of the CPU hours, is in neither." if share > _MENTIONED else "."
    )


def same_waits(advice: Advice) -> Fixed | None:
    """The fixed fleet with which jobs wait as long as on demand."""
    return next((each for each in advice.fixed if "same waits" in each.name), None)


def method(advice: Advice) -> list[str]:
    """How the figures came about, and what they leave out."""
    best, fleet = advice.on_demand[0], same_waits(advice)
    found = [
        f"Jobs count with the resources that were {advice.basis}, and arrive when they became eligible. Workers boot"
        " for a minute, idle ones are kept as long as the planner expects to need them, and all are paid by the second"
        " at the catalogue's hourly prices.",
        "Fixed nodes are paid for the whole time at the same prices. Each group of nodes is a partition; the oldest"
        " job that fits starts first.",
    ]
    if advice.sampled.simulated < advice.sampled.of:
        found.append(
            f"{advice.sampled.simulated:,} of {advice.sampled.of:,} jobs were simulated on demand, in"
            f" {advice.sampled.blocks} blocks spread over the time. Their cost is extrapolated by the cost of all"
            " jobs' own shares; ± is a 95 % confidence interval. Fixed fleets and demand are of all jobs."
        )
    if fleet is not None and fleet.usd > best.usd > 0:
        found.append(f"The fixed fleet would break even with nodes that cost {1 - best.usd / fleet.usd:.0%} less.")
    found.append("Storage, network, staff and licences are in neither. A CPU of a shape counts as one of the cluster.")
    return found


def comparison(advice: Advice) -> list[list[str]]:
    """A row for each way: its name, cost, cost per 30 days, waits (p50, p95, p99), and how much of it is used."""
    rows = []
    for one in advice.on_demand:
        name = f"on demand: {POLICY_NAMES.get(one.policy, one.policy)}"
        cost = (on_demand_usd(one), per_month(one.usd, advice))
        rows.append([name, *cost, *_spans(one.waits), f"{one.utilisation:.0%}"])
    for fleet in advice.fixed:
        name = f"fixed, {fleet.name}: {nodes(fleet)}{_without(fleet)}"
        cost = (usd(fleet.usd), per_month(fleet.usd, advice))
        rows.append([name, *cost, *_spans(fleet.waits), f"{fleet.utilisation:.0%}"])
    if advice.recorded_waits is not None:
        rows.append(["as recorded", "", "", *_spans(advice.recorded_waits), ""])
    return rows


def _without(fleet: Fixed) -> str:
    return f"; {fleet.jobs_without_a_place:,} jobs fit nowhere" if fleet.jobs_without_a_place else ""


def _spans(waits: Waits | None) -> list[str]:
    return ["no end"] * 3 if waits is None else [span(each) for each in (waits.p50, waits.p95, waits.p99)]


def left_out(advice: Advice) -> list[list[str]]:
    """What counts for nothing, and how often."""
    return [
        *(_line(each, f"jobs that {each.reason}") for each in advice.misfits),
        *(_line(each, f"bad records: {each.reason}{_first(each)}") for each in advice.bad),
        *(_line(each, each.reason) for each in advice.skipped),
    ]


def assumed(advice: Advice) -> list[list[str]]:
    """What was assumed, and for how many jobs."""
    return [_line(each, f"assumed: jobs that {each.reason}") for each in advice.assumed]


def _first(left: Left) -> str:
    return f" (the first is record {left.first:,})" if left.first else ""


def _line(left: Left, text: str) -> list[str]:
    hours = f" ({number(left.cpu_hours)} CPU hours)" if left.cpu_hours else ""
    return [text + hours, f"{left.count:,}"]
