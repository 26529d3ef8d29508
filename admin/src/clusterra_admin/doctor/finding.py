"""What the doctor found: one finding for each thing it looked at, and a report of all."""

from collections import Counter
from typing import Literal

from clusterra_contracts.identity import Moment
from pydantic import BaseModel, ConfigDict

type Status = Literal["ok", "warning", "failure", "skipped"]

ALL_OK = 0
WARNINGS = 1
FAILURES = 2


class Finding(BaseModel):
    """The result of one check of one thing. `check` and `about` identify it from run to run."""

    model_config = ConfigDict(frozen=True)

    check: str
    """`<group>.<what>`, such as `nats.rights`."""
    about: str = ""
    """The thing, such as a table or a cluster; empty for a check that has only one."""
    status: Status
    seen: str
    """What was observed; of a skipped check, why it was skipped."""
    advice: str = ""
    """What to do: a command or a sentence; empty where nothing is to be done."""

    @property
    def group(self) -> str:
        """The first part of `check`."""
        return self.check.partition(".")[0]


class Report(BaseModel):
    """All findings of one run: the document that `--json` prints."""

    model_config = ConfigDict(frozen=True)

    schema_name: Literal["clusterra.doctor.v1"] = "clusterra.doctor.v1"
    version: str
    """The version of `clusterra-admin`."""
    checked_at: Moment
    seconds: float
    summary: dict[Status, int]
    """Status -> number of findings."""
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0 without warnings and failures, 1 with warnings only, 2 with failures."""
        if self.summary.get("failure"):
            return FAILURES
        return WARNINGS if self.summary.get("warning") else ALL_OK


def summary_of(findings: tuple[Finding, ...]) -> dict[Status, int]:
    """The number of findings by status; a status that did not occur has 0."""
    counted = Counter(finding.status for finding in findings)
    order: tuple[Status, ...] = ("ok", "warning", "failure", "skipped")
    return {status: counted[status] for status in order}


def ok(check: str, seen: str, *, about: str = "") -> Finding:
    """A thing that is as it should be."""
    return Finding(check=check, about=about, status="ok", seen=seen)


def warning(check: str, seen: str, advice: str, *, about: str = "") -> Finding:
    """A thing that works now, and will not for long, or not as well as it should."""
    return Finding(check=check, about=about, status="warning", seen=seen, advice=advice)


def failure(check: str, seen: str, advice: str, *, about: str = "") -> Finding:
    """A thing that does not work."""
    return Finding(check=check, about=about, status="failure", seen=seen, advice=advice)


def skipped(check: str, reason: str, *, about: str = "") -> Finding:
    """A thing that could not be looked at, because another does not work or nothing is configured."""
    return Finding(check=check, about=about, status="skipped", seen=reason)
