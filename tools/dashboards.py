"""What the Grafana dashboards show: an overview, and one for each service. `grafana.py` draws them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from slo_rules import OBJECTIVES, RATIO

type Unit = Literal["s", "short", "reqps", "bytes", "percentunit", "dateTimeFromNow", "none"]


@dataclass(frozen=True)
class Panel:
    """A graph: each query by its legend. The description says what a reader should look for."""

    title: str
    description: str
    unit: Unit
    queries: Mapping[str, str]


@dataclass(frozen=True)
class Figure:
    """One number at the top of a dashboard, red from `bad` on (or below it, if `bad_below`)."""

    title: str
    query: str
    unit: Unit = "short"
    bad: float | None = None
    bad_below: bool = False


@dataclass(frozen=True)
class Board:
    """A dashboard."""

    name: str
    """Its file's name, and the end of its uid."""
    title: str
    figures: Sequence[Figure] = ()
    panels: Sequence[Panel] = ()
    tags: Sequence[str] = field(default=("clusterra",))


def _quantiles(histogram: str, by: str = "", selector: str = "") -> dict[str, str]:
    labels = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return {
        f"p{percent}{legend}": f"histogram_quantile({percent / 100:g}, "
        f"sum by ({labels}) (rate({histogram}_bucket{{{selector}}}[$__rate_interval])))"
        for percent in (50, 99)
    }


def _of_process(job: str) -> tuple[Panel, ...]:
    return (
        Panel("Memory", "Resident memory of each replica.", "bytes",
              {"{{instance}}": f'process_resident_memory_bytes{{job="{job}"}}'}),
        Panel("CPU", "Cores in use by each replica.", "short",
              {"{{instance}}": f'rate(process_cpu_seconds_total{{job="{job}"}}[$__rate_interval])'}),
        Panel("Readiness and NATS", "1 is good. A replica without NATS is not ready.", "none",
              {"ready {{instance}}": f'clusterra_ready{{job="{job}"}}',
               "NATS {{instance}}": f'clusterra_nats_connected{{job="{job}"}}'}),
        Panel("Messages handled", "By outcome: `garbage` and `given_up` became dead letters.", "reqps",
              {"{{family}} {{outcome}}":
               f'sum by (family, outcome) (rate(clusterra_messages_handled_total{{job="{job}"}}[$__rate_interval]))'}),
        Panel("Spans", "Spans exported, and those that the receiver did not take.", "reqps",
              {"{{outcome}}": f'sum by (outcome) (rate(clusterra_spans_total{{job="{job}"}}[$__rate_interval]))'}),
    )  # fmt: skip


_LEASES = Panel("Leases", "The scaler and the proxy have 8 shards each.", "none",
                {"{{service}} {{instance}}": "clusterra_leases_held"})  # fmt: skip
_OUTBOX = Panel("Outbox", "Age of messages that a writer left to the relay. It should be 0.", "s",
                {"{{job}} {{table}}": "max by (job, table) (clusterra_outbox_oldest_seconds)"})  # fmt: skip
_CONSUMERS = Panel("Lag of durable consumers", "How long messages wait; 0 when none does.", "s",
                   {"{{consumer}}": "max by (consumer) (clusterra_consumer_lag_seconds)"})  # fmt: skip
_PENDING = Panel("Messages waiting", "For their first delivery.", "short",
                 {"{{consumer}}": "max by (consumer) (clusterra_consumer_pending_messages)"})  # fmt: skip

BOARDS = (
    Board(
        "overview",
        "Clusterra: overview",
        (
            Figure("Services up", 'sum(up{job=~"gateway|proxy|scaler|events"})', bad=4, bad_below=True),
            Figure("Replicas not ready", "count(clusterra_ready == 0) or vector(0)", bad=1),
            Figure("Pending jobs", "sum(clusterra_cluster_pending_jobs)"),
            Figure("Workers", "sum(clusterra_cluster_workers)"),
            Figure("Dead letters, 1 h", "sum(increase(clusterra_dead_letters_total[1h]))", bad=1),
            Figure("Open breakers", "sum(clusterra_cluster_open_breakers)", bad=1),
        ),
        (
            Panel("Error budget burn, 1 h", "1 uses the budget up in 30 days; 14.4 calls somebody at once.", "short",
                  {slo.name: f'{RATIO}1h{{slo="{slo.name}"}} / {round(1 - slo.target, 6):g}' for slo in OBJECTIVES}),
            Panel("Submits", "By status.", "reqps",
                  {"{{code}}": "sum by (code) (rate(clusterra_http_requests_total"
                   '{route="jobs_submit"}[$__rate_interval]))'}),
            Panel("Time of a submit", "At the gateway, to the end of the response.", "s",
                  _quantiles("clusterra_http_seconds", selector='route="jobs_submit"')),
            Panel("Time of a scale-up", "From the read of the queue until the edge reports the start.", "s",
                  _quantiles("clusterra_scale_up_seconds")),
            Panel("Pending jobs by cluster", "Jobs that could start at the same time.", "short",
                  {"{{tenant}}/{{cluster}}": "sum by (tenant, cluster) (clusterra_cluster_pending_jobs)"}),
            Panel("Workers by cluster", "By phase, as the edge reports them.", "short",
                  {"{{tenant}}/{{cluster}} {{phase}}":
                   "sum by (tenant, cluster, phase) (clusterra_cluster_workers)"}),
            Panel("Age of snapshots and heartbeats", "Old ones stop scaling.", "s",
                  {"snapshot {{tenant}}/{{cluster}}":
                   "time() - max by (tenant, cluster) (clusterra_cluster_snapshot_timestamp_seconds)",
                   "heartbeat {{tenant}}/{{cluster}}":
                   "time() - max by (tenant, cluster) (clusterra_cluster_heartbeat_timestamp_seconds)"}),
            Panel("Generations not applied", "Above 0 for long: the edge does not carry out decisions.", "short",
                  {"{{tenant}}/{{cluster}}": "max by (tenant, cluster) (clusterra_cluster_desired_generation) - "
                   "max by (tenant, cluster) (clusterra_cluster_applied_generation)"}),
            _CONSUMERS,
            _OUTBOX,
        ),
    ),
    Board(
        "gateway",
        "Clusterra: gateway",
        (
            Figure("Requests/s", "sum(rate(clusterra_http_requests_total[5m]))", "reqps"),
            Figure("Errors of ours, 5 min",
                   'sum(rate(clusterra_http_requests_total{code=~"5.."}[5m])) / '
                   "sum(rate(clusterra_http_requests_total[5m]))", "percentunit", bad=0.01),
            Figure("Event streams", "sum(clusterra_feed_subscribers)"),
        ),
        (
            Panel("Requests by route", "Streams count at their end.", "reqps",
                  {"{{route}}": "sum by (route) (rate(clusterra_http_requests_total[$__rate_interval]))"}),
            Panel("Requests by status", "5xx are errors of ours.", "reqps",
                  {"{{code}}": "sum by (code) (rate(clusterra_http_requests_total[$__rate_interval]))"}),
            Panel("Time by route", "Streams are not counted.", "s", _quantiles("clusterra_http_seconds", "route")),
            Panel("Streams ended", "Their client was too slow.", "reqps",
                  {"dropped": "sum(rate(clusterra_feed_dropped_total[$__rate_interval]))"}),
            _OUTBOX,
            *_of_process("gateway"),
        ),
    ),
    Board(
        "proxy",
        "Clusterra: proxy",
        (
            Figure("slurmrestd requests/s", "sum(rate(clusterra_slurmrestd_seconds_count[5m]))", "reqps"),
            Figure("slurmrestd unreachable, 5 min",
                   'sum(increase(clusterra_slurmrestd_seconds_count{status="unreachable"}[5m])) or vector(0)', bad=1),
            Figure("Placeholder failures, 1 h",
                   "sum(increase(clusterra_placeholder_failures_total[1h])) or vector(0)", bad=1),
        ),
        (
            Panel("Requests to slurmrestd", "By status; `unreachable` got no answer.", "reqps",
                  {"{{method}} {{status}}":
                   "sum by (method, status) (rate(clusterra_slurmrestd_seconds_count[$__rate_interval]))"}),
            Panel("Time of slurmrestd", "To the whole answer.", "s",
                  _quantiles("clusterra_slurmrestd_seconds", "method")),
            Panel("Requests on the bus", "By outcome.", "reqps",
                  {"{{outcome}}":
                   'sum by (outcome) (rate(clusterra_rpc_seconds_count{job="proxy"}[$__rate_interval]))'}),
            Panel("Time of requests", "From arrival to reply.", "s",
                  _quantiles("clusterra_rpc_seconds", selector='job="proxy"')),
            Panel("Snapshots", "By reason of publication.", "reqps",
                  {"{{why}}": "sum by (why) (rate(clusterra_snapshots_published_total[$__rate_interval]))"}),
            Panel("Placeholder failures", "By kind.", "reqps",
                  {"{{kind}}": "sum by (kind) (rate(clusterra_placeholder_failures_total[$__rate_interval]))"}),
            _LEASES,
            *_of_process("proxy"),
        ),
    ),
    Board(
        "scaler",
        "Clusterra: scaler",
        (
            Figure("Leases held", 'sum(clusterra_leases_held{service="scaler"})', bad=8, bad_below=True),
            Figure("Clusters", "count(clusterra_cluster_snapshot_timestamp_seconds)"),
            Figure("Open breakers", "sum(clusterra_cluster_open_breakers)", bad=1),
        ),
        (
            Panel("Decisions", "By whether they changed anything.", "reqps",
                  {"{{outcome}}": "sum by (outcome) (rate(clusterra_scaler_decisions_total[$__rate_interval]))"}),
            Panel("Time to decide", "The planner alone.", "s", _quantiles("clusterra_scaler_decide_seconds")),
            Panel("Time to publish", "From an input to the published desired state.", "s",
                  _quantiles("clusterra_scaler_publish_seconds")),
            Panel("Time of a scale-up", "From the read of the queue until the edge reports the start.", "s",
                  _quantiles("clusterra_scale_up_seconds")),
            Panel("Requests to Slurm", "Drains, undrains and removals, by outcome.", "reqps",
                  {"{{operation}} {{outcome}}":
                   "sum by (operation, outcome) (rate(clusterra_scaler_requests_total[$__rate_interval]))"}),
            Panel("Open breakers", "Shapes that get no workers.", "short",
                  {"{{tenant}}/{{cluster}}": "sum by (tenant, cluster) (clusterra_cluster_open_breakers)"}),
            Panel("Decision log", "Records, by outcome.", "reqps",
                  {"{{outcome}}":
                   "sum by (outcome) (rate(clusterra_scaler_decision_records_total[$__rate_interval]))"}),
            _LEASES,
            _CONSUMERS,
            _OUTBOX,
            *_of_process("scaler"),
        ),
    ),
    Board(
        "events",
        "Clusterra: events",
        (
            Figure("Lag", 'max(clusterra_consumer_lag_seconds{job="events"})', "s", bad=60),
            Figure("Dead letters, 1 h", 'sum(increase(clusterra_dead_letters_total{job="events"}[1h]))', bad=1),
        ),
        (
            _CONSUMERS,
            _PENDING,
            Panel("Unserved pulls", "The consumer does not exist, or has no leader.", "reqps",
                  {"{{consumer}}":
                   "sum by (consumer) (rate(clusterra_nats_unserved_pulls_total[$__rate_interval]))"}),
            Panel("Time of history requests", "From arrival to reply.", "s",
                  _quantiles("clusterra_rpc_seconds", selector='job="events"')),
            *_of_process("events"),
        ),
    ),
    Board(
        "edge-agent",
        "Clusterra: edge-agent",
        (
            Figure("Workers lost, 1 h", "sum(increase(clusterra_edge_workers_lost_total[1h])) or vector(0)", bad=1),
            Figure("Starts refused, 1 h",
                   "sum(increase(clusterra_edge_starts_refused_total[1h])) or vector(0)", bad=1),
            Figure("Leaders", "sum(clusterra_edge_lease_held)"),
        ),
        (
            Panel("Time to apply", "From the decision until the substrate accepted it; two clocks.", "s",
                  _quantiles("clusterra_edge_apply_seconds")),
            Panel("Workers started and removed", "As the substrate accepted them.", "reqps",
                  {"started": "sum(rate(clusterra_edge_workers_started_total[$__rate_interval]))",
                   "removed": "sum(rate(clusterra_edge_workers_removed_total[$__rate_interval]))"}),
            Panel("Time of requests", "Log reads.", "s",
                  _quantiles("clusterra_rpc_seconds", selector='job="edge-agent"')),
            Panel("Machines without a worker", "NodeClaims removed.", "reqps",
                  {"removed": "sum(rate(clusterra_edge_ghosts_removed_total[$__rate_interval]))"}),
            *_of_process("edge-agent"),
        ),
    ),
)  # fmt: skip


def queries(board: Board) -> list[str]:
    """Every query of a dashboard."""
    return [figure.query for figure in board.figures] + [
        query for panel in board.panels for query in panel.queries.values()
    ]
