"""Prints a report for people: grouped, worst first within a group, with what to do, and a summary at the end."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import typer

from clusterra_admin.doctor.finding import Finding, Report, Status

GROUPS = {
    "nats": "NATS",
    "record": "Record (DynamoDB)",
    "issuer": "Issuer (OpenID Connect)",
    "services": "Services",
    "clusters": "Clusters",
    "edges": "Edges",
    "clocks": "Clocks",
    "certificates": "Certificates",
}
"""Group -> heading, in the order of printing."""
MARKS: dict[Status, tuple[str, str]] = {
    "failure": ("FAIL", typer.colors.RED),
    "warning": ("warn", typer.colors.YELLOW),
    "ok": ("ok", typer.colors.GREEN),
    "skipped": ("skip", typer.colors.BRIGHT_BLACK),
}
"""Status -> mark and colour, the worst first."""
MAX_ALIKE = 8
"""More findings of one check that are ok are printed as one line."""


def lines(report: Report, *, every: bool = False) -> Iterator[str]:
    """The lines of a report. With `every`, all that is ok is listed too, however much of it there is."""
    order = [*GROUPS, *sorted({finding.group for finding in report.findings} - set(GROUPS))]
    for group in order:
        found = [finding for finding in report.findings if finding.group == group]
        if found:
            yield typer.style(GROUPS.get(group, group), bold=True)
            yield from _group(found, every=every)
            yield ""
    counts = report.summary
    problems = f"{counts['failure']} failures, {counts['warning']} warnings"
    colour = MARKS["failure" if counts["failure"] else "warning" if counts["warning"] else "ok"][1]
    rest = f"{counts['ok']} ok, {counts['skipped']} skipped, in {report.seconds:.1f} s"
    yield typer.style(problems, fg=colour, bold=True) + f", {rest}"


def _group(found: Iterable[Finding], *, every: bool) -> Iterator[str]:
    worst_first = list(MARKS)
    ordered = sorted(found, key=lambda finding: (worst_first.index(finding.status), finding.check))
    for (status, check), alike in groupby(ordered, key=lambda finding: (finding.status, finding.check)):
        findings = list(alike)
        if status in {"ok", "skipped"} and len(findings) > MAX_ALIKE and not every:
            yield _line(findings[0].status, check, f"{len(findings)} checked; --all lists them")
            continue
        for finding in findings:
            name = f"{check} {finding.about}" if finding.about else check
            yield _line(finding.status, name, finding.seen)
            if finding.advice:
                yield f"         {typer.style('->', bold=True)} {_printable(finding.advice)}"


def _line(status: Status, name: str, seen: str) -> str:
    mark, colour = MARKS[status]
    return f"  {typer.style(f'{mark:4}', fg=colour, bold=status == 'failure')}   {_printable(name)}: {_printable(seen)}"


def _printable(text: str) -> str:
    """A text in one line, without what a terminal obeys: much of it is what a tenant's Slurm or directory answered."""
    return "".join(each if each.isprintable() else " " for each in text)
