"""For each alert, series with which it fires and series with which it does not, for promtool.

Values are in promtool's notation, one a minute: `0+5x60` counts up by 5 for an hour, `0x60` stays 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

type Series = Mapping[str, str]
"""Series -> values."""

_CLUSTER = '{job="scaler",tenant="acme",cluster="main"}'
_FAILURES = f'clusterra_scaler_control_loop_failures_total{{{_CLUSTER[1:-1]},reason="error"}}'
_SUBMIT = 'job="gateway",route="jobs_submit"'
_UP = {f'up{{job="{job}",instance="1"}}': "1x60" for job in ("gateway", "gateway-work", "proxy", "scaler", "events")}


@dataclass(frozen=True)
class Case:
    """One alert. `minutes` is when it is looked for, `window` tells alerts of one name apart."""

    alert: str
    firing: Series
    quiet: Series
    minutes: int = 20
    window: str = ""
    step_minutes: int = 1

    def tests(self) -> list[dict[str, Any]]:
        """Two tests for promtool."""
        labels = f'alertname="{self.alert}",alertstate="firing"' + (f',window="{self.window}"' if self.window else "")
        return [self._test(labels, self.firing, 1), self._test(labels, self.quiet, 0)]

    def _test(self, labels: str, series: Series, expected: int) -> dict[str, Any]:
        query = f"count(ALERTS{{{labels}}}) or vector(0)"
        return {
            "name": f"{self.alert} {self.window} {'fires' if expected else 'does not fire'}",
            "interval": f"{self.step_minutes}m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": query,
                    "eval_time": f"{self.minutes}m",
                    "exp_samples": [{"labels": "{}", "value": expected}],
                }
            ],
        }


def _counter(name: str, labels: str, grows: int) -> Series:
    return {f"{name}{{{labels}}}": f"0+{grows}x60"}


def _gauge(name: str, labels: str, value: float) -> Series:
    return {f"{name}{{{labels}}}": f"{value:g}x60"}


def _event(alert: str, name: str, labels: str) -> Case:
    """An alert that any growth of a counter causes."""
    return Case(alert, _counter(name, labels, 1), _counter(name, labels, 0), minutes=40)


def _slurmrestd(failing: int, slow: int) -> Series:
    of = 'job="proxy",method="GET"'
    return {
        f'clusterra_slurmrestd_seconds_count{{{of},status="200"}}': f"0+{100 - failing}x60",
        f'clusterra_slurmrestd_seconds_count{{{of},status="unreachable"}}': f"0+{failing}x60",
        f'clusterra_slurmrestd_seconds_bucket{{{of},status="200",le="0.1"}}': f"0+{100 - slow}x60",
        f'clusterra_slurmrestd_seconds_bucket{{{of},status="200",le="10.0"}}': "0+100x60",
        f'clusterra_slurmrestd_seconds_bucket{{{of},status="200",le="+Inf"}}': "0+100x60",
    }


def _requests(bad: int, of: int, steps: int) -> Series:
    return {
        f'clusterra_http_requests_total{{{_SUBMIT},code="201"}}': f"0+{of - bad}x{steps}",
        f'clusterra_http_requests_total{{{_SUBMIT},code="503"}}': f"0+{bad}x{steps}",
    }


def _histogram(name: str, labels: str, le: str, bad: int, steps: int) -> Series:
    return {
        f'{name}_bucket{{{labels},le="{le}"}}': f"0+{1000 - bad}x{steps}",
        f"{name}_count{{{labels}}}": f"0+1000x{steps}",
    }


_MINUTES = {"1h": 65, "6h": 390, "1d": 1470, "3d": 4350}
_STEPS = {"1h": 70, "6h": 40, "1d": 150, "3d": 440}


def _objectives() -> list[Case]:
    """Each burn rate a little over its limit fires; a share of errors within the budget does not."""
    cases: list[Case] = []
    for window, factor in (("1h", 14.4), ("6h", 6), ("1d", 3), ("3d", 1)):
        steps, minutes = _STEPS[window], _MINUTES[window]
        step_minutes = 1 if window == "1h" else 10
        over, within = round(100 * factor * 1.2), 50  # of 100,000: the budget is 100
        cases.append(
            Case(
                "ClusterraSubmitAvailability",
                _requests(over, 100_000, steps),
                _requests(within, 100_000, steps),
                minutes,
                window,
                step_minutes,
            )
        )
        over, within = round(10 * factor * 1.2), 5  # of 1,000: the budget is 10
        for alert, name, labels, le in (
            ("ClusterraSubmitLatency", "clusterra_http_seconds", _SUBMIT, "1.0"),
            ("ClusterraScaleUpLatency", "clusterra_scale_up_seconds", 'job="scaler",instance="1"', "5.0"),
        ):
            firing, quiet = (_histogram(name, labels, le, bad, steps) for bad in (over, within))
            cases.append(Case(alert, firing, quiet, minutes, window, step_minutes))
    return cases


CASES: Sequence[Case] = (
    Case("ClusterraServiceDown", {**_UP, 'up{job="proxy",instance="1"}': "0x60"}, _UP),
    Case("ClusterraServiceAbsent", {name: value for name, value in _UP.items() if "events" not in name}, _UP),
    Case(
        "ClusterraReplicaNotReady",
        _gauge("clusterra_ready", 'job="proxy",instance="1"', 0),
        _gauge("clusterra_ready", 'job="proxy",instance="1"', 1),
    ),
    Case(
        "ClusterraIncompatibleServices",
        _gauge("clusterra_incompatible_services", 'job="proxy",instance="1"', 1),
        _gauge("clusterra_incompatible_services", 'job="proxy",instance="1"', 0),
    ),
    Case(
        "ClusterraIncompatibleEdges",
        _gauge("clusterra_incompatible_edges", 'job="scaler",instance="1"', 1),
        _gauge("clusterra_incompatible_edges", 'job="scaler",instance="1"', 0),
    ),
    Case(
        "ClusterraServiceRestarts",
        {'process_start_time_seconds{job="proxy",instance="1"}': "0+100x60"},
        {'process_start_time_seconds{job="proxy",instance="1"}': "100x60"},
    ),
    _event("ClusterraSpansNotExported", "clusterra_spans_total", 'job="proxy",outcome="failed"'),
    Case(
        "ClusterraNatsDisconnected",
        _gauge("clusterra_nats_connected", 'job="proxy",instance="1"', 0),
        _gauge("clusterra_nats_connected", 'job="proxy",instance="1"', 1),
    ),
    Case(
        "ClusterraNatsReconnects",
        _counter("clusterra_nats_reconnects_total", 'job="proxy"', 1),
        {'clusterra_nats_reconnects_total{job="proxy"}': "0 1x60"},
    ),
    Case(
        "ClusterraConsumerLag",
        _gauge("clusterra_consumer_lag_seconds", 'job="events",consumer="events-archive"', 90),
        _gauge("clusterra_consumer_lag_seconds", 'job="events",consumer="events-archive"', 2),
    ),
    _event("ClusterraConsumerMissing", "clusterra_nats_unserved_pulls_total", 'job="events",consumer="events-archive"'),
    _event("ClusterraDeadLetters", "clusterra_dead_letters_total", 'job="events",family="event"'),
    _event("ClusterraCostsLeftOut", "clusterra_ledger_left_out_total", 'job="events",what="worker"'),
    Case(
        "ClusterraStreamNearlyFull",
        _gauge("clusterra_stream_use", 'job="events",stream="SCALE",of="bytes"', 0.95),
        _gauge("clusterra_stream_use", 'job="events",stream="SCALE",of="bytes"', 0.5),
    ),
    Case(
        "ClusterraOutboxStuck",
        _gauge("clusterra_outbox_oldest_seconds", 'job="scaler",table="fleets"', 61),
        _gauge("clusterra_outbox_oldest_seconds", 'job="scaler",table="fleets"', 6),
    ),
    Case(
        "ClusterraLeasesNotHeld",
        {
            'clusterra_leases_held{job="scaler",service="scaler",instance="1"}': "4x60",
            'clusterra_leases_held{job="scaler",service="scaler",instance="2"}': "3x60",
        },
        {
            'clusterra_leases_held{job="scaler",service="scaler",instance="1"}': "4x60",
            'clusterra_leases_held{job="scaler",service="scaler",instance="2"}': "4x60",
            'clusterra_leases_held{job="proxy",service="proxy",instance="1"}': "3x60",
            'clusterra_leases_held{job="proxy",service="proxy",instance="2"}': "5x60",
        },
    ),
    Case(
        "ClusterraClusterDegraded",
        {'clusterra_cluster_degraded{job="proxy",tenant="acme",cluster="main",reason="unreachable"}': "1x60"},
        {'clusterra_cluster_degraded{job="proxy",tenant="acme",cluster="main",reason="unreachable"}': "1 1 1 _x60"},
    ),
    Case(
        "ClusterraSnapshotOld",
        {f"clusterra_cluster_snapshot_timestamp_seconds{_CLUSTER}": "0x60"},
        {f"clusterra_cluster_snapshot_timestamp_seconds{_CLUSTER}": "0+60x60"},
    ),
    Case(
        "ClusterraSnapshotStale",
        {f"clusterra_cluster_snapshot_stale{_CLUSTER}": "1x60"},
        {f"clusterra_cluster_snapshot_stale{_CLUSTER}": "1 0 1 0 1 _x60"},
    ),
    Case(
        "ClusterraControlLoopFailing",
        {_FAILURES: "0+1x60"},
        {_FAILURES: "0 1 2x60"},
    ),
    Case(
        "ClusterraSlurmUnreadable",
        {f"clusterra_cluster_unreadable_lists{_CLUSTER}": "2x60"},
        {f"clusterra_cluster_unreadable_lists{_CLUSTER}": "0x60"},
    ),
    Case(
        "ClusterraEdgeSilent",
        {f"clusterra_cluster_heartbeat_timestamp_seconds{_CLUSTER}": "0x60"},
        {f"clusterra_cluster_heartbeat_timestamp_seconds{_CLUSTER}": "0+60x60"},
    ),
    Case(
        "ClusterraDesiredStateNotApplied",
        {
            f"clusterra_cluster_desired_generation{_CLUSTER}": "8x60",
            f"clusterra_cluster_applied_generation{_CLUSTER}": "7x60",
        },
        {
            f"clusterra_cluster_desired_generation{_CLUSTER}": "7 8x60",
            f"clusterra_cluster_applied_generation{_CLUSTER}": "7 7 8x60",
        },
    ),
    Case(
        "ClusterraBreakerOpen",
        {f"clusterra_cluster_open_breakers{_CLUSTER}": "1x60"},
        {f"clusterra_cluster_open_breakers{_CLUSTER}": "0x60"},
    ),
    Case("ClusterraSlurmrestdErrors", _slurmrestd(10, 0), _slurmrestd(1, 0)),
    Case("ClusterraSlurmrestdSlow", _slurmrestd(0, 50), _slurmrestd(0, 5), minutes=30),
    _event("ClusterraPlaceholdersNotKept", "clusterra_placeholder_failures_total", 'job="proxy",kind="forbidden"'),
    _event("ClusterraWorkersLost", "clusterra_edge_workers_lost_total", 'job="edge-agent"'),
    _event("ClusterraStartsRefused", "clusterra_edge_starts_refused_total", 'job="edge-agent"'),
    Case(
        "ClusterraEdgeWithoutLeader",
        _gauge("clusterra_edge_lease_held", 'job="edge-agent",namespace="clusterra-edge",instance="1"', 0),
        {
            'clusterra_edge_lease_held{job="edge-agent",namespace="clusterra-edge",instance="1"}': "0x60",
            'clusterra_edge_lease_held{job="edge-agent",namespace="clusterra-edge",instance="2"}': "1x60",
        },
    ),
    *_objectives(),
)
