"""The service level objectives, and their rules: multi-window, multi-burn-rate alerts as in Google's SRE Workbook.

An alert fires when the error budget of 30 days burns too fast over a long window, and still does over a short one.
"""

from dataclasses import dataclass
from typing import Any

WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
RATIO = "clusterra:slo_errors_per_request:ratio_rate"


@dataclass(frozen=True)
class Objective:
    """One objective: the share of good requests, and how bad and all requests are counted."""

    name: str
    """The label `slo` of its series."""
    alert: str
    target: float
    promise: str
    """What users may expect, as the summary of its alerts says it."""
    bad: str
    """PromQL with `[WINDOW]`: the rate of bad requests."""
    all: str
    """PromQL with `[WINDOW]`: the rate of all requests."""


@dataclass(frozen=True)
class BurnRate:
    """How many times faster than allowed the budget burns, over both windows, and what that calls for."""

    factor: float
    long: str
    short: str
    severity: str


BURN_RATES = (
    BurnRate(14.4, "1h", "5m", "page"),
    BurnRate(6, "6h", "30m", "page"),
    BurnRate(3, "1d", "2h", "ticket"),
    BurnRate(1, "3d", "6h", "ticket"),
)

_SUBMITS = 'clusterra_http_requests_total{job="gateway",route="jobs_submit"'
_SUBMIT_SECONDS = "clusterra_http_seconds"
_SCALE_UP = "clusterra_scale_up_seconds"


def _slow(histogram: str, seconds: str, selector: str) -> str:
    within = f'sum(rate({histogram}_bucket{{{selector},le="{seconds}"}}[WINDOW]))'
    return f"{_all(histogram, selector)} - {within}"


def _all(histogram: str, selector: str) -> str:
    return f"sum(rate({histogram}_count{{{selector}}}[WINDOW]))"


OBJECTIVES = (
    Objective(
        "submit-availability",
        "ClusterraSubmitAvailability",
        0.999,
        "999 of 1,000 submits are answered without an error of ours",
        bad=f'(sum(rate({_SUBMITS},code=~"5.."}}[WINDOW])) or vector(0))',
        all=f"sum(rate({_SUBMITS}}}[WINDOW]))",
    ),
    Objective(
        "submit-latency",
        "ClusterraSubmitLatency",
        0.99,
        "99 of 100 submits are answered within a second",
        bad=f"({_slow(_SUBMIT_SECONDS, '1.0', 'job="gateway",route="jobs_submit"')})",
        all=_all(_SUBMIT_SECONDS, 'job="gateway",route="jobs_submit"'),
    ),
    Objective(
        "scale-up-latency",
        "ClusterraScaleUpLatency",
        0.99,
        "99 of 100 scale-ups are applied by the edge within 5 seconds",
        bad=f"({_slow(_SCALE_UP, '5.0', 'job="scaler"')})",
        all=_all(_SCALE_UP, 'job="scaler"'),
    ),
)


def groups() -> list[dict[str, Any]]:
    """The groups of a Prometheus rule file: one with the recorded ratios, one with the alerts."""
    recorded = [
        {
            "record": f"{RATIO}{window}",
            "expr": f"{slo.bad} / ({slo.all} > 0)".replace("WINDOW", window),
            "labels": {"slo": slo.name},
        }
        for slo in OBJECTIVES
        for window in WINDOWS
    ]
    targets = [
        {"record": "clusterra:slo_target:ratio", "expr": f"vector({slo.target})", "labels": {"slo": slo.name}}
        for slo in OBJECTIVES
    ]
    alerts = [_alert(slo, burn) for slo in OBJECTIVES for burn in BURN_RATES]
    return [
        {"name": "clusterra-slo-ratios", "rules": targets + recorded},
        {"name": "clusterra-slo-alerts", "rules": alerts},
    ]


def _alert(slo: Objective, burn: BurnRate) -> dict[str, Any]:
    budget = round(1 - slo.target, 6)
    over = [f'{RATIO}{window}{{slo="{slo.name}"}} > {burn.factor:g} * {budget:g}' for window in (burn.long, burn.short)]
    return {
        "alert": slo.alert,
        "expr": " and ".join(over),
        "labels": {"severity": burn.severity, "slo": slo.name, "window": burn.long},
        "annotations": {
            "summary": f"The error budget burns {burn.factor:g} times too fast over {burn.long}: {slo.promise}",
        },
    }
