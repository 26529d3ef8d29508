"""Draws a simulation over time as an SVG: demand, fleet, cost and bound."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from clusterra_planner_tools.simulate.bound import corners, usd_per_second
from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.columns import Columns
from clusterra_planner_tools.simulate.figures import Figures, demand
from clusterra_planner_tools.simulate.result import Result

_WIDTH, _PANEL, _LEFT, _TOP, _GAP = 1000, 170, 70, 70, 46
_COLUMNS = 500
_FLEET, _DEMAND = "#9ecae1", "#d94801"
_STYLE = "font-family:sans-serif;font-size:13px;fill:#222"


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    behind: str
    front: str
    fleet: Sequence[float]
    demand: Sequence[float]


def draw(result: Result, figures: Figures, catalogue: Catalogue, title: str) -> str:
    """The SVG. What is paid for is drawn behind; what runs, and the bound on its cost, in front."""
    begin = min(worker.launch for worker in result.workers)
    end = max(worker.release for worker in result.workers)
    panels = _panels(result, catalogue, begin, end)
    height = _TOP + len(panels) * (_PANEL + _GAP)
    caption = (
        f"cost {figures.cost_usd:,.0f} USD, bound {figures.bound_usd:,.0f} USD, ratio {figures.ratio:.3f}; "
        f"{figures.jobs:,} jobs, {figures.worker_starts:,} workers; wait p50 {figures.wait_p50:.0f} s, "
        f"p99 {figures.wait_p99:.0f} s; {(end - begin) / 86400:.1f} days"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + _LEFT + 20} {height}">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="22" style="{_STYLE};font-weight:bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="42" style="{_STYLE}">{escape(caption)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _drawn(panel, _TOP + number * (_PANEL + _GAP), (end - begin) / 86400)
    return "\n".join([*parts, "</svg>", ""])


def _panels(result: Result, catalogue: Catalogue, begin: float, end: float) -> list[_Panel]:
    names = (("CPUs", "fleet", "used"), ("Memory in GiB", "fleet", "used"), ("USD per hour", "cost", "bound"))
    fleet, used = [Columns(begin, end, _COLUMNS) for _ in names], [Columns(begin, end, _COLUMNS) for _ in names]
    for worker in result.workers:
        offering = catalogue[worker.shape]
        _add(fleet, worker.launch, worker.release, (offering.cpus, offering.memory_gib, offering.usd_per_second * 3600))
    at = corners(catalogue.offerings)
    for since, until, cpus, memory_gib in demand(result.jobs):
        _add(used, since, until, (cpus, memory_gib, usd_per_second(cpus, memory_gib, at) * 3600))
    return [_Panel(*words, one.values, other.values) for words, one, other in zip(names, fleet, used, strict=True)]


def _add(columns: Iterable[Columns], begin: float, end: float, values: Iterable[float]) -> None:
    for each, value in zip(columns, values, strict=True):
        each.add(begin, end, value)


def _drawn(panel: _Panel, top: int, days: float) -> list[str]:
    most = max(*panel.fleet, *panel.demand) or 1.0
    bottom = top + _PANEL

    def line(values: Sequence[float]) -> str:
        step = _WIDTH / _COLUMNS
        points = (
            (_LEFT + (column + 0.5) * step, bottom - value / most * _PANEL) for column, value in enumerate(values)
        )
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)

    area = f"{_LEFT},{bottom} {line(panel.fleet)} {_LEFT + _WIDTH},{bottom}"
    return [
        f'<text x="{_LEFT}" y="{top - 6}" style="{_STYLE}">{panel.title}: '
        f'<tspan fill="#3182bd">{panel.behind}</tspan>, <tspan fill="{_DEMAND}">{panel.front}</tspan></text>',
        f'<polygon points="{area}" fill="{_FLEET}"/>',
        f'<polyline points="{line(panel.demand)}" fill="none" stroke="{_DEMAND}" stroke-width="1"/>',
        f'<path d="M{_LEFT},{top}V{bottom}H{_LEFT + _WIDTH}" fill="none" stroke="#222"/>',
        f'<text x="{_LEFT - 6}" y="{top + 10}" style="{_STYLE}" text-anchor="end">{most:,.0f}</text>',
        f'<text x="{_LEFT - 6}" y="{bottom}" style="{_STYLE}" text-anchor="end">0</text>',
        f'<text x="{_LEFT + _WIDTH}" y="{bottom + 16}" style="{_STYLE}" text-anchor="end">{days:.1f} days</text>',
    ]
