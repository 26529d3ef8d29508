"""Draws the trace of a job as an SVG, from the spans that an OpenTelemetry Collector's file exporter wrote.

The picture has the spans of the trace with the submit, and below them those of the decisions that link to it.

    trace_picture.py traces.jsonl > docs/trace.svg
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROW, LEFT, WIDTH, RIGHT, TOP = 20, 470, 600, 80, 58
COLOURS = {
    "gateway": "#3b6fb6",
    "proxy": "#2a8c6a",
    "scaler": "#b5651d",
    "edge-agent": "#8a4fa3",
    "events": "#7a7a7a",
}
SUBMIT = "jobs/submit"


@dataclass(frozen=True)
class Drawn:
    """A span as it is drawn. Times are seconds since the epoch."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    start: float
    end: float
    links: frozenset[str]
    """The traces that it links to."""
    events: tuple[tuple[str, float], ...]


def read(lines: Iterable[str]) -> list[Drawn]:
    """All spans in the file of the Collector: an OTLP request in JSON per line."""
    return [
        _drawn(_service(of_resource["resource"]), span)
        for line in lines
        for of_resource in json.loads(line)["resourceSpans"]
        for scope in of_resource["scopeSpans"]
        for span in scope["spans"]
    ]


def _service(resource: dict[str, Any]) -> str:
    return next(str(item["value"]["stringValue"]) for item in resource["attributes"] if item["key"] == "service.name")


def _drawn(service: str, span: dict[str, Any]) -> Drawn:
    return Drawn(
        service=service,
        name=span["name"],
        trace=span["traceId"],
        id=span["spanId"],
        parent=span.get("parentSpanId", ""),
        start=int(span["startTimeUnixNano"]) / 1e9,
        end=int(span["endTimeUnixNano"]) / 1e9,
        links=frozenset(link["traceId"] for link in span.get("links", ())),
        events=tuple((event["name"], int(event["timeUnixNano"]) / 1e9) for event in span.get("events", ())),
    )


def of_a_job(spans: Sequence[Drawn]) -> list[list[Drawn]]:
    """The trace of the first submit, then each trace of a decision that links to it. Raises ValueError."""
    submits = [span for span in spans if span.name.endswith(SUBMIT) and not span.parent]
    if not submits:
        raise ValueError("the file has no span of a submit")
    job = min(submits, key=lambda span: span.start).trace
    decisions = {span.trace for span in spans if job in span.links and span.trace != job}
    traces = [[span for span in spans if span.trace == trace] for trace in (job, *decisions)]
    return [traces[0], *sorted(traces[1:], key=lambda trace: min(span.start for span in trace))]


def tree(spans: Sequence[Drawn]) -> list[tuple[int, Drawn]]:
    """Spans with their depth: parents first, children by start. A span whose parent was not received is a root."""
    known = {span.id for span in spans}
    rows: list[tuple[int, Drawn]] = []

    def add(parent: str, depth: int) -> None:
        children = [s for s in spans if (s.parent if s.parent in known else "") == parent]
        for span in sorted(children, key=lambda span: span.start):
            rows.append((depth, span))
            add(span.id, depth + 1)

    add("", 0)
    return rows


def picture(traces: Sequence[Sequence[Drawn]]) -> str:
    """The SVG of some traces, one below the other on one axis of time."""
    begin = min(span.start for trace in traces for span in trace)
    seconds = max(max(span.end for trace in traces for span in trace) - begin, 1e-3)
    shapes: list[str] = []
    y = TOP
    for index, trace in enumerate(traces):
        title = "Trace of the job" if index == 0 else "Trace of a decision, linked with it"
        shapes.append(_text(10, y + 14, f"{title}: {trace[0].trace}", "b"))
        y += ROW + 4
        for depth, span in tree(trace):
            shapes.extend(_row(depth, span, y, begin, seconds))
            y += ROW
        y += 12
    return _page(shapes, y, seconds)


def _row(depth: int, span: Drawn, y: int, begin: float, seconds: float) -> list[str]:
    def at(moment: float) -> float:
        return LEFT + (moment - begin) / seconds * WIDTH

    x, width = at(span.start), max(at(span.end) - at(span.start), 2)
    colour = COLOURS.get(span.service, "#444444")
    shapes = [
        _text(10 + 12 * depth, y + 14, span.name),
        f'<rect x="{x:.1f}" y="{y + 4}" width="{width:.1f}" height="12" rx="2" fill="{colour}"/>',
        _text(x + width + 5, y + 14, _duration(span.end - span.start), "s"),
    ]
    shapes.extend(
        f'<circle cx="{at(moment):.1f}" cy="{y + 10}" r="4" fill="#ffffff" stroke="{colour}" stroke-width="2">'
        f"<title>{escape(name)}</title></circle>"
        for name, moment in span.events
    )
    return shapes


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(text)}</text>'


def _page(shapes: Sequence[str], height: int, seconds: float) -> str:
    step = next(size for size in (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600) if seconds / size <= 12)
    axis: list[str] = []
    for mark in range(int(seconds / step) + 1):
        x = LEFT + mark * step / seconds * WIDTH
        axis.append(f'<line x1="{x:.1f}" y1="44" x2="{x:.1f}" y2="{height}" stroke="#dddddd"/>')
        axis.append(_text(x - 6, 40, f"{mark * step:g} s", "s"))
    legend: list[str] = []
    for index, (service, colour) in enumerate(COLOURS.items()):
        legend.append(f'<rect x="{10 + 100 * index}" y="8" width="12" height="12" rx="2" fill="{colour}"/>')
        legend.append(_text(26 + 100 * index, 18, service, "s"))
    width = LEFT + WIDTH + RIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        "<style>text{font:12px ui-monospace,monospace;fill:#222222} .b{font-weight:bold} "
        ".s{font-size:11px;fill:#555555}</style>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join([*axis, *legend, *shapes])
        + "\n</svg>\n"
    )


def main() -> None:
    """Print the picture of the file that is named."""
    with Path(sys.argv[1]).open() as lines:
        sys.stdout.write(picture(of_a_job(read(lines))))


if __name__ == "__main__":
    main()
