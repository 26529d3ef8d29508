"""Draws the advice as SVG for the report: demand and fleets over time, and bars of cost and waits."""

from collections.abc import Sequence
from html import escape

from clusterra_planner_tools.advise import wording
from clusterra_planner_tools.advise.results import Advice

_WIDTH, _LEFT, _RIGHT = 720, 46, 14
_DEMAND, _FLEET, _FIXED, _OTHER = "#c2410c", "#93c5fd", "#374151", "#9ca3af"
_TOP, _PANEL, _BOTTOM = 16, 118, 18
_TICKS = 5


def timeline(advice: Advice) -> str:
    """CPUs over time: what ran, the workers on demand behind it, and fixed fleets as far as they are in sight."""
    demand, fleet = advice.timeline.demand, advice.timeline.fleet
    fixed = wording.same_waits(advice)
    cpus = None if fixed is None else sum(_cpus(each.shape, advice) * each.nodes for each in fixed.groups)
    top = max(*demand, *(fleet or (0.0,)), 1.0)
    if cpus is not None and cpus <= 4 * top:
        top = max(top, float(cpus))
    top *= 1.08
    bottom, width = _TOP + _PANEL, _WIDTH - _LEFT - _RIGHT
    parts = [_axis(top, bottom)]
    if fleet is not None:
        parts.append(f'<path d="{_steps(fleet, top, bottom)}" fill="{_FLEET}"/>')
    parts.append(f'<path d="{_steps(demand, top, bottom)}" fill="{_DEMAND}" fill-opacity="{0.75 if fleet else 0.6}"/>')
    if cpus is not None and cpus <= top:
        y = bottom - cpus / top * _PANEL
        parts.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_FIXED}" stroke-width="1.5"'
            ' stroke-dasharray="6 3"/>'
            f'<text x="{_LEFT + width - 4}" y="{y - 4:.1f}" text-anchor="end">fixed fleet: {cpus:,} CPUs</text>'
        )
    for tick in range(_TICKS + 1):
        x = _LEFT + width * tick / _TICKS
        anchor = "start" if tick == 0 else "end" if tick == _TICKS else "middle"
        label = wording.day(advice.begin + (advice.end - advice.begin) * tick / _TICKS, advice)
        parts.append(f'<text x="{x:.0f}" y="{bottom + 14}" text-anchor="{anchor}">{escape(label)}</text>')
    described = f"CPUs in use over {advice.days:.0f} days, at most {max(demand):,.0f} on average in an interval"
    return _svg(_TOP + _PANEL + _BOTTOM, "CPUs over time", described, parts)


def _cpus(shape: str, advice: Advice) -> int:
    return next(each.cpus for fleet in advice.fixed for each in fleet.groups if each.shape == shape)


def bars(rows: Sequence[tuple[str, float | None, str, bool]], title: str) -> str:
    """Bars below each other: a name, a length, a label, and whether it is on demand. None has no bar."""
    longest = max((length for _, length, _, _ in rows if length), default=1.0)
    left, right, height, gap = 178, 118, 12, 4
    parts = []
    for place, (name, length, label, on_demand) in enumerate(rows):
        y = place * (height + gap) + 2
        width = (_WIDTH - left - right) * (length or 0.0) / longest
        parts.append(
            f'<text x="{left - 8}" y="{y + 9.5}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{left}" y="{y}" width="{max(width, 1.0):.1f}" height="{height}" rx="2"'
            f' fill="{_DEMAND if on_demand else _OTHER}"/>'
            f'<text x="{left + max(width, 1.0) + 6:.1f}" y="{y + 9.5}">{escape(label)}</text>'
        )
    described = "; ".join(f"{name}: {label}" for name, _, label, _ in rows)
    return _svg(len(rows) * (height + gap) + 2, title, described, parts)


def _axis(top: float, bottom: int) -> str:
    parts = []
    for share in (0.0, 0.5, 1.0):
        value = _round_down(top) * share
        y = bottom - value / top * _PANEL
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d1d5db"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,.0f}</text>'
        )
    return "".join(parts) + '<text x="2" y="10">CPUs</text>'


def _round_down(value: float) -> float:
    """A number of two digits that is not larger."""
    power = 10.0 ** max(0, len(str(int(value))) - 2)
    return int(value / power) * power or value


def _steps(values: Sequence[float], top: float, bottom: int) -> str:
    step = (_WIDTH - _LEFT - _RIGHT) / len(values)
    points = [f"M{_LEFT},{bottom}"]
    for column, value in enumerate(values):
        points.append(f"V{bottom - value / top * _PANEL:.1f}H{_LEFT + (column + 1) * step:.1f}")
    return "".join([*points, f"V{bottom}Z"])


def _svg(height: int, title: str, described: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(f"{title}. {described}")}">'
        f"<title>{escape(title)}</title><desc>{escape(described)}</desc>{''.join(parts)}</svg>"
    )
