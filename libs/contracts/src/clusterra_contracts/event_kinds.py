"""The catalogue of events: what each kind says, an example of it, and who sees it.

`docs/reference/events.md` and the AsyncAPI document are made from it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from clusterra_contracts.events import Event, Fact, event_of, fact_model
from clusterra_contracts.identity import ClusterRef

MEANINGS: Mapping[str, str] = {
    "job.submitted": "Slurm accepted a job. An array has one such event, with the id of the array.",
    "job.running": "A job, or a task of an array, started to run.",
    "job.requeued": "A job stopped running before its end: Slurm put it back into the queue.",
    "job.completed": "A job or task ended with exit code 0.",
    "job.failed": (
        "A job or task failed. `state` is `FAILED`, `OUT_OF_MEMORY`, `NODE_FAIL`, `BOOT_FAIL` or another such one."
    ),
    "job.cancelled": "A job or task was cancelled.",
    "job.timeout": "A job or task reached its time limit.",
    "job.staged": "The files of a job were copied in before its start, or out after its end.",
    "job.digest": (
        "How the tasks of an array went since the digest before. Only webhooks and mails that digest arrays get it."
    ),
    "action.hold": "Somebody held a job: it does not start until it is released.",
    "action.release": "Somebody released a held job.",
    "action.requeue": "Somebody put a job back into the queue, to start again.",
    "action.signal": "Somebody sent a signal to a job.",
    "action.update": "Somebody changed fields of a job.",
    "action.cancel": "Somebody cancelled a job.",
    "action.warn": "The owner of an idle session was warned that its job will be cancelled.",
    "session.ready": "The server of an interactive session takes connections for the first time.",
    "run.started": "A run of a workflow started.",
    "run.resumed": "A run of a workflow was resumed from its failed step.",
    "run.completed": "All steps of a run completed.",
    "run.failed": "A step of a run failed, and no other step is under way.",
    "run.cancelled": "A run of a workflow was cancelled.",
    "node.registered": "The slurmd of a worker registered with slurmctld: the node is active.",
    "node.drained": "A node takes no new jobs.",
    "node.undrained": "A drained node takes jobs again.",
    "node.down": "Slurm does not reach a node, or an admin took it down.",
    "node.removed": "Slurm has no record of the node any more.",
    "node.misclassified": "The machine of a worker does not have the resources of its shape.",
    "node.launched": "The site's cloud launched the machine of a node, as the site tells.",
    "node.terminated": "The site's cloud terminated the machine of a node, as the site tells.",
    "node.spot_interrupted": "The site's cloud takes the spot machine of a node back in minutes, as the site tells.",
    "worker.started": "The edge started a worker: its machine is being provisioned.",
    "worker.stopped": "The edge removed a worker, as the desired state demands.",
    "worker.failed": "A worker failed before or while it ran.",
    "worker.lost": "A worker vanished although no desired state had named it. It may have run jobs.",
    "worker.priced": "A worker's machine has this price from now on.",
    "scale.decided": "The scaler changed the desired number of workers, with its reasons.",
    "cluster.degraded": "Something that a cluster needs does not work.",
    "cluster.recovered": "What a cluster needs works again.",
    "cluster.registered": "A cluster was registered.",
    "cluster.changed": "The binding or the policy of a cluster was changed.",
    "cluster.paused": "A cluster was paused: it buys no workers.",
    "cluster.resumed": "A paused cluster was resumed.",
    "cluster.agent_key_rotated": "The key of a cluster's edge-agent was replaced.",
    "cluster.deleting": "The deletion of a cluster began.",
    "tenant.created": "A tenant was created.",
    "tenant.changed": "A tenant was changed.",
    "tenant.deleting": "The deletion of a tenant began.",
    "user.created": "A person signed in for the first time, or a service account was created.",
    "member.changed": "The role of a member was changed, or the member was disabled or enabled.",
    "member.deleted": "A member was removed.",
    "token.created": "An API token was created.",
    "token.revoked": "An API token was revoked.",
    "token.rotated": "The secret of an API token was replaced.",
    "invitation.created": "An admin invited somebody.",
    "invitation.revoked": "An invitation was revoked.",
    "link.created": "A member made a link that shows a job.",
    "link.revoked": "A link that shows a job was revoked.",
    "template.created": "A template was created.",
    "template.changed": "The draft of a template was changed.",
    "template.reviewed": "A version of a template was reviewed.",
    "template.published": "A version of a template was published.",
    "template.deleted": "A template was deleted.",
    "schedule.created": "A schedule was created.",
    "schedule.changed": "A schedule was changed, paused or resumed.",
    "schedule.deleted": "A schedule was deleted.",
    "quota.changed": "A quota was set or changed.",
    "quota.deleted": "A quota was removed.",
    "budget.changed": "A budget was set or changed.",
    "budget.deleted": "A budget was removed.",
    "budget.threshold": "The costs of a month reached a threshold of a budget.",
    "webhook.created": "A webhook was created.",
    "webhook.changed": "A webhook was changed, enabled or disabled.",
    "webhook.secret_rotated": "The secret of a webhook was replaced.",
    "webhook.replayed": "An admin had events delivered to a webhook again.",
    "webhook.deleted": "A webhook was deleted.",
    "webhook.disabled": "The events service disabled a webhook after days of failed deliveries.",
    "webhook.test": "A test of a webhook. It is delivered to this webhook alone, and is not archived.",
    "credential.created": "A bus credential was created: with it a program subscribes to events at NATS.",
    "credential.revoked": "A bus credential was revoked, and its connections were cut.",
    "scim.user_created": "The tenant's directory provisioned a user.",
    "scim.user_changed": "The tenant's directory changed a user.",
    "scim.user_deleted": "The tenant's directory removed a user.",
    "scim.group_created": "The tenant's directory provisioned a group.",
    "scim.group_changed": "The tenant's directory changed a group.",
    "scim.group_deleted": "The tenant's directory removed a group.",
    "file.deleted": "Somebody deleted files of the bucket.",
    "file.renamed": "Somebody renamed a file of the bucket.",
    "file.copied": "Somebody copied a file of the bucket.",
}
"""What each kind says, in one sentence or two."""

_AT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
_OF_JOB: Mapping[str, Any] = {"job_id": "42", "name": "align", "user": "ada", "uid": 20001}
_SIZE: Mapping[str, Any] = {"cpus": 4, "memory_mib": 13471}
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "JobFact": {**_OF_JOB, "partition": "main", "state": "RUNNING", "submitted_at": _AT, "account": "physics"},
    "JobActionFact": {**_OF_JOB, "actor": "grace"},
    "NodeFact": {"node": "general-small-x7k2p", "states": ("IDLE",), "size": _SIZE},
    "MisclassifiedFact": {
        "node": "general-small-x7k2p",
        "shape": "general-small",
        "expected": _SIZE,
        "actual": {"cpus": 2, "memory_mib": 6571},
    },
    "MachineFact": {"node": "compute-7", "instance": "i-0abc1234def567890"},
    "WorkerFact": {"worker": "general-small-x7k2p", "shape": "general-small", "started_at": _AT},
    "PriceFact": {
        "worker": "general-small-x7k2p",
        "shape": "general-small",
        "started_at": _AT,
        "micro_usd_per_hour": 163_200,
        "source": "catalogue",
    },
    "ScaleFact": {
        "generation": 7,
        "fence": 3,
        "snapshot_generation": 1772366400250,
        "changes": (
            {
                "shape": "general-small",
                "replicas_before": 1,
                "replicas_after": 2,
                "reason": "1 more for pending job 42",
                "job_ids": ("42",),
            },
        ),
    },
    "ConditionFact": {"reason": "unreachable", "message": "slurmrestd does not respond", "since": _AT},
    "AdminFact": {"actor": "grace"},
    "BudgetFact": {
        "subject": "user:ada",
        "scope": "user",
        "name": "ada",
        "month": "2026-03",
        "measure": "actual",
        "percent": 80,
        "limit_micro_usd": 100_000_000,
        "micro_usd": 80_412_000,
    },
    "FileFact": {"actor": "ada", "uid": 20001, "paths": ("data/reads.fastq",)},
    "StagingFact": {**_OF_JOB, "direction": "in", "state": "done", "files": 2, "bytes": 1_048_576},
    "DigestFact": {
        **_OF_JOB,
        "job_id": "42",
        "number": 1,
        "counts": {"job.completed": 997, "job.failed": 2},
        "totals": {"job.completed": 997, "job.failed": 3},
        "failed_tasks": ("42_7", "42_12"),
        "tasks_left": 0,
        "since": _AT,
        "until": _AT,
    },
    "SessionFact": _OF_JOB,
    "RunFact": {"run_id": "5251b878", "name": "assembly", "user": "ada", "uid": 20001},
}
_SOME_ID = "b1946ac92492d234"
_OF_ADMIN_FAMILY: Mapping[str, Mapping[str, Any]] = {
    "cluster": {"subject": "c1"},
    "tenant": {"subject": "acme"},
    "user": {"subject": "ada"},
    "member": {"subject": "ada"},
    "token": {"subject": _SOME_ID, "detail": "laptop"},
    "invitation": {"subject": _SOME_ID},
    "link": {"subject": _SOME_ID, "detail": "42"},
    "template": {"subject": "align-reads"},
    "schedule": {"subject": _SOME_ID, "detail": "nightly"},
    "quota": {"subject": "user:ada"},
    "budget": {"subject": "user:ada"},
    "webhook": {"subject": "wh_0123456789abcdef", "detail": "CI"},
    "credential": {"subject": "bc_0123456789abcdef", "detail": "billing"},
    "scim": {"subject": f"{_SOME_ID}{_SOME_ID}"},
}
"""What administrative actions are about, by the family of the kind."""
_SERVICES: Mapping[str, str] = {
    **dict.fromkeys(("JobFact", "JobActionFact", "NodeFact", "ConditionFact"), "proxy"),
    **dict.fromkeys(("WorkerFact", "MisclassifiedFact"), "edge-agent"),
    **dict.fromkeys(("PriceFact", "webhook.disabled", "webhook.test"), "events"),
    "ScaleFact": "scaler",
}
"""The services that publish the facts of a model or of a kind. The gateway publishes all others."""
_OF_KIND: Mapping[str, Mapping[str, Any]] = {
    "job.submitted": {"state": "PENDING"},
    "job.requeued": {"state": "PENDING", "restarts": 1},
    "job.completed": {"state": "COMPLETED", "exit_code": 0, "started_at": _AT, "ended_at": _AT},
    "job.failed": {
        "job_id": "42_7",
        "state": "OUT_OF_MEMORY",
        "reason": "OutOfMemory",
        "exit_code": 137,
        "nodes": ("general-small-x7k2p",),
        "started_at": _AT,
        "ended_at": _AT,
        "restarts": 0,
        "cpus": 2,
        "memory_mib": 4096,
        "time_limit_seconds": 3600.0,
    },
    "job.cancelled": {"state": "CANCELLED", "ended_at": _AT},
    "job.timeout": {"state": "TIMEOUT", "started_at": _AT, "ended_at": _AT},
    "action.signal": {"detail": "USR1"},
    "action.update": {"detail": "nice=100, time_limit=30"},
    "run.failed": {"steps": {"completed": 1, "failed": 1}, "failed_step": "count"},
    "run.completed": {"steps": {"completed": 2}},
    "member.changed": {"before": "member", "after": "admin"},
    "webhook.disabled": {"actor": "events", "detail": "no delivery has succeeded for 5 days"},
    "webhook.test": {"actor": "events", "detail": ""},
    "file.renamed": {"destination": "data/reads-1.fastq"},
}


_FACT = TypeAdapter[Fact](Fact)


def example(kind: str) -> Event:
    """An event of this kind, as it is published. Raises KeyError for an unknown one."""
    model = fact_model(kind).__name__
    about = _OF_ADMIN_FAMILY[kind.partition(".")[0]] if model == "AdminFact" else {}
    fact = _FACT.validate_python({"kind": kind, **_FIELDS[model], **about, **_OF_KIND.get(kind, {})})
    service = _SERVICES.get(kind) or _SERVICES.get(fact_model(kind).__name__, "gateway")
    return event_of(service, ClusterRef(tenant="acme", cluster="c1"), fact, version="1772366400.0", time=_AT)
