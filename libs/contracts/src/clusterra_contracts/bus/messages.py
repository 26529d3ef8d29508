"""The table of all messages on the bus: address, model, sender and receivers."""

from dataclasses import dataclass
from typing import Literal

from clusterra_contracts.condition import ClusterCondition
from clusterra_contracts.events import Event
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import Wire
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.revocation import Revocation
from clusterra_contracts.rpc import bus_logins as bus_logins_rpc
from clusterra_contracts.rpc import costs as costs_rpc
from clusterra_contracts.rpc import edge as edge_rpc
from clusterra_contracts.rpc import edge_folders as edge_folders_rpc
from clusterra_contracts.rpc import edge_staging as edge_staging_rpc
from clusterra_contracts.rpc import edge_streams as streams_rpc
from clusterra_contracts.rpc import estimate as estimate_rpc
from clusterra_contracts.rpc import forget as forget_rpc
from clusterra_contracts.rpc import history as history_rpc
from clusterra_contracts.rpc import mails as mails_rpc
from clusterra_contracts.rpc import reply as rpc
from clusterra_contracts.rpc import simulate as simulate_rpc
from clusterra_contracts.rpc import slurm as slurm_rpc
from clusterra_contracts.rpc import slurm_jobs as slurm_jobs_rpc
from clusterra_contracts.rpc import slurm_limits as slurm_limits_rpc
from clusterra_contracts.rpc import slurm_nodes as slurm_nodes_rpc
from clusterra_contracts.rpc import slurm_rest as slurm_rest_rpc
from clusterra_contracts.rpc import slurm_scripts as slurm_scripts_rpc
from clusterra_contracts.rpc import slurm_steps as slurm_steps_rpc
from clusterra_contracts.rpc import usage as usage_rpc
from clusterra_contracts.rpc import webhooks as webhooks_rpc
from clusterra_contracts.rpc import why as why_rpc
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.versions import Announcement

Service = Literal["gateway", "proxy", "scaler", "edge-agent", "events", "authority", "*"]


@dataclass(frozen=True)
class Publication:
    """A message to all subscribers. `address` contains `{tenant}` and mostly `{cluster}`, or the sender."""

    address: str
    message: type[Wire]
    sender: Service
    receivers: tuple[Service, ...]


@dataclass(frozen=True)
class Request:
    """A message that is answered with `Reply[result]`."""

    address: str
    request: type[Wire]
    result: type[Wire]
    server: Service
    clients: tuple[Service, ...]


PUBLICATIONS: tuple[Publication, ...] = (
    Publication("job.pending.{tenant}.{cluster}", QueueSnapshot, "proxy", ("scaler",)),
    Publication("scale.desired.{tenant}.{cluster}", DesiredState, "scaler", ("edge-agent",)),
    Publication("heartbeat.{tenant}.{cluster}", Heartbeat, "edge-agent", ("scaler", "gateway", "events")),
    Publication("event.{tenant}.{cluster}.{kind}", Event, "*", ("events", "gateway")),
    Publication("edge-event.{tenant}.{cluster}.{kind}", Event, "edge-agent", ("events",)),
    Publication("$KV.registry.{tenant}.{cluster}", ClusterBinding, "gateway", ("proxy", "scaler", "events")),
    Publication("$KV.conditions.{tenant}.{cluster}", ClusterCondition, "proxy", ("gateway",)),
    Publication("revocation.{tenant}", Revocation, "gateway", ("gateway",)),
    Publication("$KV.versions.{service}.{instance}", Announcement, "*", ("*",)),
)


def _edge(operation: str, request: type[Wire], result: type[Wire]) -> Request:
    return Request(f"edge.{{tenant}}.{{cluster}}.{operation}", request, result, "edge-agent", ("gateway",))


def _slurm(operation: slurm_rpc.Operation, request: type[Wire], result: type[Wire], *clients: Service) -> Request:
    return Request(f"slurm.{{tenant}}.{{cluster}}.{operation}", request, result, "proxy", clients)


REQUESTS: tuple[Request, ...] = (
    _slurm("submit", slurm_rpc.Submit, slurm_rpc.Submitted, "gateway"),
    _slurm("prepare", estimate_rpc.Prepare, estimate_rpc.Prepared, "gateway"),
    _slurm("get", slurm_rpc.GetJob, slurm_rpc.Job, "gateway"),
    _slurm("list", slurm_rpc.ListJobs, slurm_rpc.JobPage, "gateway"),
    _slurm("count", slurm_rpc.CountJobs, slurm_rpc.JobCounts, "gateway"),
    _slurm("cancel", slurm_rpc.Cancel, rpc.Done, "gateway"),
    _slurm("change", slurm_jobs_rpc.ChangeJob, rpc.Done, "gateway"),
    _slurm("block-submits", slurm_limits_rpc.BlockSubmits, rpc.Done, "gateway"),
    _slurm("steps", slurm_steps_rpc.ReadSteps, slurm_steps_rpc.JobSteps, "gateway"),
    _slurm("script", slurm_scripts_rpc.ReadScript, slurm_scripts_rpc.JobScript, "gateway"),
    _slurm("nodes", slurm_nodes_rpc.ListNodes, slurm_nodes_rpc.NodePage, "gateway"),
    _slurm("drain", slurm_nodes_rpc.Drain, slurm_nodes_rpc.Drained, "scaler"),
    _slurm("undrain", slurm_nodes_rpc.Undrain, rpc.Done, "scaler"),
    _slurm("down", slurm_nodes_rpc.Down, rpc.Done, "scaler"),
    _slurm("delete-node", slurm_nodes_rpc.DeleteNode, rpc.Done, "scaler"),
    _slurm("set-extra", slurm_nodes_rpc.SetExtra, rpc.Done, "scaler"),
    _slurm("diag", slurm_nodes_rpc.Diagnose, slurm_nodes_rpc.Diagnosis, "gateway"),
    _slurm("get-watched", slurm_rpc.GetJob, slurm_rpc.Job, "gateway"),
    _slurm("list-watched", slurm_rpc.ListWatched, slurm_rpc.JobPage, "gateway", "proxy"),
    _slurm("count-watched", slurm_rpc.CountJobs, slurm_rpc.JobCounts, "gateway", "proxy"),
    _slurm("rest", slurm_rest_rpc.ReadRest, slurm_rest_rpc.RestPart, "gateway"),
    _slurm("rest-watched", slurm_rest_rpc.ReadRest, slurm_rest_rpc.RestPart, "gateway"),
    _slurm("find-key", slurm_rpc.FindKey, slurm_rpc.FoundKey, "proxy", "gateway"),
    _edge("log", edge_rpc.ReadLog, edge_rpc.LogChunk),
    _edge("folder", edge_folders_rpc.ListFolder, edge_folders_rpc.FolderPage),
    _edge("file", edge_folders_rpc.ReadFile, edge_folders_rpc.FileChunk),
    _edge("stage", edge_staging_rpc.Stage, edge_staging_rpc.Staged),
    _edge("session", streams_rpc.ReadSession, streams_rpc.SessionReady),
    _edge("stream-open", streams_rpc.OpenStream, streams_rpc.StreamOpened),
    _edge("stream-read", streams_rpc.ReadStream, streams_rpc.StreamChunk),
    _edge("stream-write", streams_rpc.WriteStream, streams_rpc.StreamWritten),
    _edge("stream-cancel", streams_rpc.CancelStream, rpc.Done),
    Request("history.{tenant}.{cluster}", history_rpc.ReadHistory, history_rpc.HistoryPage, "events", ("gateway",)),
    Request("tenant-history.{tenant}", history_rpc.ReadTenantHistory, history_rpc.HistoryPage, "events", ("gateway",)),
    Request("usage.{tenant}", usage_rpc.ReadUsage, usage_rpc.Usage, "events", ("gateway",)),
    Request("webhook-test.{tenant}", webhooks_rpc.TestWebhook, webhooks_rpc.Attempt, "events", ("gateway",)),
    Request(
        "webhook-deliveries.{tenant}", webhooks_rpc.ReadDeliveries, webhooks_rpc.DeliveryPage, "events", ("gateway",)
    ),
    Request("mail-recipients.{tenant}", mails_rpc.ReadRecipients, mails_rpc.Recipients, "gateway", ("events",)),
    Request("bus-login.{tenant}", bus_logins_rpc.SignBusLogin, bus_logins_rpc.BusLogin, "authority", ("gateway",)),
    Request("bus-revocation.{tenant}", bus_logins_rpc.RevokeBusLogins, rpc.Done, "authority", ("gateway",)),
    Request("ledger.{tenant}.{cluster}.costs", costs_rpc.ReadCosts, costs_rpc.CostPage, "events", ("gateway",)),
    Request("ledger.{tenant}.{cluster}.job", costs_rpc.ReadJobCost, costs_rpc.JobCost, "events", ("gateway",)),
    Request("ledger.{tenant}.{cluster}.runs", costs_rpc.ReadRunCosts, costs_rpc.RunCosts, "events", ("gateway",)),
    Request(
        "ledger.{tenant}.{cluster}.jobs", costs_rpc.ReadJobCosts, costs_rpc.JobCosts, "events", ("gateway", "proxy")
    ),
    Request("ledger.{tenant}.{cluster}.spending", costs_rpc.ReadSpending, costs_rpc.Spending, "events", ("gateway",)),
    Request("scaler.{tenant}.{cluster}.why", why_rpc.ExplainJob, why_rpc.Explanation, "scaler", ("gateway",)),
    Request(
        "scaler.{tenant}.{cluster}.estimate", estimate_rpc.EstimateJob, estimate_rpc.Estimate, "scaler", ("gateway",)
    ),
    Request(
        "scaler.{tenant}.{cluster}.simulate",
        simulate_rpc.SimulatePolicy,
        simulate_rpc.Simulation,
        "scaler",
        ("gateway",),
    ),
    Request("forget.{tenant}.{cluster}.scaler", forget_rpc.Forget, forget_rpc.Forgotten, "scaler", ("gateway",)),
    Request("forget.{tenant}.{cluster}.events", forget_rpc.Forget, forget_rpc.Forgotten, "events", ("gateway",)),
)
