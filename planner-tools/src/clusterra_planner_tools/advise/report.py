"""Writes the advice as one page of HTML: no script, nothing from elsewhere, fit for paper (A4).

All texts of the input are escaped. Names of users and jobs are not among them.
"""

from collections.abc import Iterable, Sequence
from html import escape

from clusterra_planner_tools.advise import picture, wording
from clusterra_planner_tools.advise.results import Advice

_LISTED = 5
"""How many reasons have a place on the page; `--json` has all."""
_STYLE = """
@page { size: A4; margin: 9mm 12mm; }
:root { color-scheme: light; }
body { font: 12px/1.38 system-ui, "Liberation Sans", Arial, sans-serif; color: #111827; background: #fff;
  max-width: 186mm; margin: 8mm auto; padding: 0 4mm; }
h1 { font-size: 19px; margin: 0 0 1px; } h2 { font-size: 13px; margin: 11px 0 4px; }
p { margin: 3px 0; } .lead { font-size: 14px; margin: 6px 0; }
.facts, .how { color: #4b5563; }
.how { font-size: 10.5px; line-height: 1.3; margin: 0; padding-left: 14px; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 10.5px system-ui, "Liberation Sans", Arial, sans-serif; fill: #111827; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 1.5px 6px; border-bottom: 1px solid #e5e7eb; vertical-align: top; }
th { font-weight: 600; color: #374151; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
td small { color: #4b5563; font-size: 10.5px; }
.columns { display: grid; grid-template-columns: 2fr 3fr; gap: 18px; }
.key span { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px; vertical-align: -1px; }
.key span:first-child { margin-left: 0; }
@media print { h1 { font-size: 16px; } h2 { font-size: 11.5px; margin: 6px 0 2px; }
  .lead { font-size: 12px; margin: 3px 0; }
  td, th { padding-top: 0.5px; padding-bottom: 0.5px; } .how, td small { font-size: 9px; }
  body { font-size: 10px; line-height: 1.25; margin: 0; padding: 0; max-width: none; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; } }
"""


def page(advice: Advice) -> str:
    """The whole page."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>What this work would cost: {escape(advice.input)}</title>",
            f"<style>{_STYLE}</style></head><body><main>",
            "<h1>What this work would cost</h1>",
            f'<p class="facts">{escape(_facts(advice))}</p>',
            f'<p class="lead"><strong>{escape(wording.headline(advice))}</strong></p>',
            "<h2>CPUs in use and CPUs paid for</h2>",
            _key(advice),
            picture.timeline(advice),
            "<h2>Cost</h2>",
            picture.bars(_costs(advice), "Cost"),
            "<h2>How long jobs wait (95 of 100 jobs wait no longer)</h2>",
            picture.bars(_waits(advice), "Waits"),
            _comparison(advice),
            '<div class="columns"><section>',
            _shapes(advice),
            "</section><section>",
            _left_out(advice),
            "</section></div>",
            "<h2>How this was found</h2>",
            f'<ul class="how">{"".join(f"<li>{escape(each)}</li>" for each in wording.method(advice))}</ul>',
            "</main></body></html>",
            "",
        ]
    )


def _facts(advice: Advice) -> str:
    gpus = f", {wording.number(advice.gpu_hours)} GPU hours" if advice.gpu_hours else ""
    return (
        f"{advice.input} ({advice.format}): {advice.jobs:,} jobs, {wording.number(advice.cpu_hours)} CPU hours{gpus},"
        f" {wording.day(advice.begin, advice)} to {wording.day(advice.end, advice)} ({advice.days:,.1f} days)"
    )


def _key(advice: Advice) -> str:
    fleet = '<span style="background:#93c5fd"></span>workers on demand' if advice.timeline.fleet else ""
    return f'<p class="key"><span style="background:#c2410c"></span>jobs, when they really ran{fleet}</p>'


def _costs(advice: Advice) -> list[tuple[str, float | None, str, bool]]:
    rows: list[tuple[str, float | None, str, bool]] = [
        (wording.POLICY_NAMES.get(each.policy, each.policy), each.usd, wording.on_demand_usd(each), True)
        for each in advice.on_demand
    ]
    return rows + [(_fixed_name(each.name), each.usd, wording.usd(each.usd), False) for each in advice.fixed]


def _waits(advice: Advice) -> list[tuple[str, float | None, str, bool]]:
    rows: list[tuple[str, float | None, str, bool]] = []
    if advice.recorded_waits is not None:
        p95 = advice.recorded_waits.p95
        rows.append(("as recorded", p95, wording.span(p95), False))
    first = advice.on_demand[0]
    rows.append(
        (wording.POLICY_NAMES.get(first.policy, first.policy), first.waits.p95, wording.span(first.waits.p95), True)
    )
    rows += [
        (
            _fixed_name(each.name),
            each.waits.p95 if each.waits else None,
            wording.span(each.waits.p95) if each.waits else "no end",
            False,
        )
        for each in advice.fixed
    ]
    return rows


def _fixed_name(name: str) -> str:
    return f"fixed, {name.removesuffix(' (p95)')}"


def _comparison(advice: Advice) -> str:
    heads = ("", "cost", "per 30 days", "wait p50", "p95", "p99", "used")
    rows = []
    for name, *cells in wording.comparison(advice):
        way, sign, nodes = name.partition(": ")
        # Nodes of a fixed fleet are on a line of their own.
        shown = f"{escape(way)}<br><small>{escape(nodes)}</small>" if sign and way.startswith("fixed") else escape(name)
        rows.append([shown, *map(escape, cells)])
    return f"<h2>All figures</h2>{_table(heads, rows)}"


def _shapes(advice: Advice) -> str:
    used = advice.on_demand[0].shapes[:5]
    rows = [[escape(each.shape), f"${each.usd_per_hour:.4f}", f"{each.share:.0%}"] for each in used]
    return "<h2>Shapes that cost most</h2>" + _table(("shape", "per hour", "of the cost"), rows)


def _left_out(advice: Advice) -> str:
    rows = wording.left_out(advice)[:_LISTED] or [["nothing", ""]]
    rows += wording.assumed(advice)[:_LISTED]
    return "<h2>Not counted, or assumed</h2>" + _table(("", "records"), [[*map(escape, each)] for each in rows])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
