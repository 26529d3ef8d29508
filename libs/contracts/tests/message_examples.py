"""One example of every message. The golden files hold these, and newer code must read every golden file ever made."""

import base64
import zlib
from datetime import UTC, datetime

from clusterra_contracts import alternatives, events
from clusterra_contracts.condition import ClusterCondition, Degradation
from clusterra_contracts.heartbeat import Applied, Heartbeat, Node, NodeClaim, Price, Stuck, Worker
from clusterra_contracts.identity import ClusterRef, SlurmUser, Wire
from clusterra_contracts.notifications import Choices
from clusterra_contracts.queue import NodeState, PendingJobs, QueueCounts, QueueSnapshot, RunningJob
from clusterra_contracts.registry import AccessKeys, ClusterBinding, ScalingPolicy, StorageBinding
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
from clusterra_contracts.rpc import job_fields
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
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_contracts.versions import Announcement, Contracts
from clusterra_contracts.webhooks import DeliverFrom, Webhook, WebhookSecret

MOMENT = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
LATER = datetime(2026, 3, 1, 12, 5, 0, tzinfo=UTC)
REF = ClusterRef(tenant="acme", cluster="c1")
ADA = SlurmUser(
    name="ada", uid=20001, gid=30001, group="staff", groups=(30002,), group_names=("chem",), home="/home/ada"
)
OPERATOR = SlurmUser(name="clusterra-operator", uid=64031, gid=64031)
SHAPE = Shape(name="general-small", family="general", size="small", vcpu=4, memory_gib=16, usd_per_hour=0.1632)
GPU_SHAPE = Shape(
    name="l4-small", family="l4", size="small", vcpu=4, memory_gib=16, usd_per_hour=0.8048, gpu_count=1, gpu_model="l4"
)
JOB_FACT = events.JobFact(
    kind="job.running",
    job_id="42_7",
    name="align",
    user="ada",
    uid=20001,
    partition="main",
    state="RUNNING",
    nodes=("general-small-x7k2p",),
    submitted_at=MOMENT,
    started_at=LATER,
    restarts=0,
    account="physics",
    template="align-reads",
    cpus=4,
    memory_mib=8192,
    gpus={"general-small-x7k2p": 1},
    time_limit_seconds=3600.0,
)
JOB = slurm_rpc.Job(
    gres="node/gpu:l4=1",
    peak_memory_mib=812,
    cpu_efficiency=0.97,
    cancelled_by="grace",
    restarts=1,
    job_id="42",
    name="align",
    user="ada",
    uid=20001,
    state="PENDING",
    reason="Resources",
    partition="main",
    account="physics",
    qos="normal",
    submitted_at=MOMENT,
    standard_output="/mnt/efs/job_42.out",
    het_job_id="42",
    het_components=("42", "43"),
    template="align-reads",
)
VIEWER = slurm_rpc.Viewer(user=ADA)
COMPONENT = slurm_rpc.Component(
    job=slurm_rpc.JobDescription(environment=("PATH=/usr/bin:/bin",), tres_per_node="gres/gpu:1"),
    further=job_fields.FurtherFields(prefer="gpu-a100"),
)
ALTERNATIVES = (
    alternatives.Alternative(
        shape="general-small",
        usd_per_hour=0.1632,
        verdict="chosen",
        job_usd_per_hour=0.0816,
        expected_usd=0.0435,
        text="It is planned on a worker of this shape.",
    ),
    alternatives.Alternative(
        shape="compute-xs",
        usd_per_hour=0.0725,
        verdict="too_small",
        lacks=("memory",),
        text="Too small: 4 GiB asked, 2.1 GiB there.",
    ),
)
ESTIMATED = PendingJobs(
    job_ids=(estimate_rpc.ESTIMATED_JOB_ID,),
    count=10,
    cpus=4,
    partition="main",
    uid=20001,
    reason="Resources",
    time_limit_seconds=3600,
    first_submitted_at=MOMENT,
)
EVENT = events.event_of("proxy", REF, JOB_FACT, version="1772366400.0", time=LATER)

SESSION = streams_rpc.SessionJob(job_id="42", uid=20001, worker="general-small-x7k2p")
LOCAL_USER = edge_folders_rpc.LocalUser(uid=20001, gid=20001, groups=(30001,))

USER_KEY = "U" + "A" * 55
WEBHOOK = Webhook(
    id="wh_0123456789abcdef",
    name="CI",
    url="https://ci.acme.example/hooks/clusterra",
    kinds=("job.failed", "run.*"),
    clusters=("c1",),
    users=("ada",),
    secrets=(WebhookSecret(text="whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"),),
    deliver_from=DeliverFrom(id="0123456789abcdef", time=MOMENT),
    created_by="ada",
    created_at=MOMENT,
)

EXAMPLES: dict[str, Wire] = {
    "job.pending.v7": QueueSnapshot(
        generation=1772366400250,
        taken_at=MOMENT,
        published_at=MOMENT,
        valid_seconds=17.5,
        pending=(
            PendingJobs(
                job_ids=("42", "43"),
                count=21,
                array_tasks={"42": ((0, 15), (17, 20))},
                cpus=2,
                memory_per_cpu_mib=4096,
                partition="main",
                uid=20001,
                reason="Resources",
                time_limit_seconds=3600,
                extra="open=1|u20001.t12=1",
                first_submitted_at=MOMENT,
            ),
            PendingJobs(
                job_ids=("45",),
                count=1,
                cpus=16,
                cpus_per_task=4,
                cpus_per_node=8,
                tasks=4,
                nodes=2,
                max_nodes=4,
                memory_per_gpu_mib=20480,
                features="gpu",
                gres="node/gpu:h100=2",
                exclusive_user=True,
                required_nodes=("gpu-large-x7k2p",),
                excluded_nodes=("gpu-large-a2b3c",),
                partition="main,debug",
                reservation="maintenance",
                het_job_id="44",
                het_offset=1,
                uid=20001,
                reason="BeginTime",
                dependent=True,
                begins_at=LATER,
                first_submitted_at=MOMENT,
            ),
        ),
        running=(
            RunningJob(
                job_id="41",
                uid=20001,
                user="ada",
                nodes=("general-small-x7k2p",),
                cpus=2,
                started_at=MOMENT,
                memory_mib=8192,
                gres={"general-small-x7k2p": {"gpu:l4": 1}},
                extra="open=1|u20001.t12=1",
                suspended=True,
            ),
        ),
        nodes=(
            NodeState(
                name="general-small-x7k2p",
                states=("MIXED",),
                cpus=4,
                cpus_allocated=2,
                memory_mib=16384,
                memory_allocated_mib=8192,
                gres={"gpu:l4": 4},
                gres_allocated={"gpu:l4": 1},
                features=("general", "general-small"),
                registered_at=MOMENT,
                extra='{"open":0,"u20001.t12":1}',
            ),
        ),
        counts=QueueCounts(pending=60_000, running=20_000, nodes=5000),
        unreadable_jobs=1,
        unreadable_nodes=2,
        traces={"42": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    ),
    "scale.desired.v3": DesiredState(
        generation=7,
        fence=3,
        snapshot_generation=1772366400250,
        decided_at=MOMENT,
        targets=(
            ShapeTarget(
                shape="general-small",
                worker=SHAPE.worker,
                replicas=2,
                victims=("general-small-a2b3c",),
                unregistered=("general-small-d4e5f",),
            ),
        ),
    ),
    "heartbeat.v6": Heartbeat(
        generation=1772366400251,
        sent_at=MOMENT,
        agent_version="0.1.0",
        contracts=Contracts(generation=2, oldest=1),
        login_expires_at=LATER,
        substrate="kubernetes",
        applied=Applied(generation=7, fence=3, applied_at=MOMENT),
        workers=(
            Worker(
                name="general-small-x7k2p",
                shape="general-small",
                phase="running",
                started_at=MOMENT,
                node="ip-10-0-0-7",
                leaves_by=LATER,
            ),
        ),
        stuck=(Stuck(shape="general-xs", cause="image_pull", workers=2, message="ImagePullBackOff: no such tag"),),
        nodes=(Node(name="ip-10-0-0-7", ready=True, created_at=MOMENT, instance_type="m7g.xlarge"),),
        node_claims=(NodeClaim(name="general-4xk2p", lifecycle="spot", launched=True, billable_from=MOMENT),),
        prices=(Price(instance_type="m7g.xlarge", lifecycle="spot", zone="us-east-1a", usd_per_hour=0.0652),),
    ),
    "event.v4": EVENT,
    "registry.cluster.v9": ClusterBinding(
        name="Genomics",
        slurmrestd_url="http://127.0.0.1:6820",
        bound_at=MOMENT,
        jwt_key="file:/run/secrets/jwt.key",
        operator=OPERATOR,
        catalogue=Catalogue(shapes=(SHAPE.model_copy(update={"real_memory_mib": 13471}), GPU_SHAPE)),
        policy=ScalingPolicy(usd_per_hour=12.5, most={"general-small": 4}, warm={"general-small": 1}),
        storage=StorageBinding(
            bucket="acme-genomics",
            region="us-east-1",
            endpoint="http://minio.storage.svc:9000",
            public_endpoint="https://files.acme.example",
            credentials=AccessKeys(
                access_key_id="file:/run/secrets/s3-key-id", secret_access_key="kubernetes:clusterra/s3/secret-key"
            ),
        ),
        identity_source="campus",
        attached=True,
        containers=True,
    ),
    "cluster.condition.v1": ClusterCondition(
        degraded=(Degradation(reason="unreachable", message="slurmrestd does not respond", since=MOMENT),)
    ),
    "service.announcement.v2": Announcement(
        service="gateway",
        instance="gateway-7f9c-1",
        software="0.1.0+g3d9ceee",
        contracts=Contracts(generation=2, oldest=1),
        working=True,
        joined=41,
        login_expires_at=MOMENT,
        record_form=1,
    ),
    "slurm.submit.v5": slurm_rpc.Submit(
        user=ADA,
        email="ada@acme.example",
        template="align-reads",
        script="#!/bin/bash\nhostname\n",
        job=slurm_rpc.JobDescription(name="align", environment=("PATH=/usr/bin:/bin",), nodes="1"),
        idempotency_key="4b8f0e2a-submit",
        claim=slurm_rpc.Claim(claimed_at=MOMENT, sent_at=MOMENT, first=True, begin_by=MOMENT),
        kill_on_invalid_dependency=True,
        further=job_fields.FurtherFields(prefer="general-large", flags=("SPREAD_JOB",), container="/mnt/efs/bundle"),
        components=(COMPONENT,),
    ),
    "slurm.submitted.v1": slurm_rpc.Submitted(job_id="42", accepted_at=MOMENT),
    "slurm.get.v3": slurm_rpc.GetJob(viewer=VIEWER, job_id="42"),
    "slurm.job.v7": JOB,
    "slurm.list.v5": slurm_rpc.ListJobs(
        viewer=VIEWER, states=("PENDING",), qos="high", sort="-name", limit=10, search="align"
    ),
    "slurm.count.v1": slurm_rpc.CountJobs(request=slurm_rpc.ListJobs(viewer=VIEWER, search="align"), fresh=True),
    "slurm.counts.v1": slurm_rpc.JobCounts(states={"PENDING": 2, "RUNNING": 1}, total=3),
    "slurm.find-key.v2": slurm_rpc.FindKey(user=VIEWER.user, idempotency_key="nightly-42", claimed_at=MOMENT),
    "slurm.found-key.v1": slurm_rpc.FoundKey(job=slurm_rpc.Submitted(job_id="42", accepted_at=MOMENT)),
    "slurm.list-watched.v5": slurm_rpc.ListWatched(request=slurm_rpc.ListJobs(viewer=VIEWER), fresh=True),
    "slurm.jobs.v7": slurm_rpc.JobPage(jobs=(JOB,), total=1),
    "slurm.cancel.v3": slurm_rpc.Cancel(viewer=VIEWER, job_id="42_7"),
    "slurm.change.v3": slurm_jobs_rpc.ChangeJob(
        viewer=VIEWER,
        jobs="42_[1-5,9]",
        change=slurm_jobs_rpc.Update(
            changes=slurm_jobs_rpc.JobChanges(name="align", time_limit=30, nice=100),
            further=slurm_jobs_rpc.FurtherChanges(qos="high", tasks=4),
        ),
    ),
    "slurm.rest.v3": slurm_rest_rpc.ReadRest(
        viewer=VIEWER,
        version="v0.0.45",
        resource="slurm/jobs",
        query={"update_time": "1772366400"},
        after=slurm_rest_rpc.RestCursor(group=20001, key="0000000042"),
    ),
    "slurm.rest-part.v1": slurm_rest_rpc.RestPart(
        answer='{"last_update":{"set":true,"infinite":false,"number":1772366400},"errors":[],"warnings":[]}',
        listed="jobs",
        blocks=(base64.b64encode(zlib.compress(b'{"job_id":43}')),),
        after=slurm_rest_rpc.RestCursor(group=20001, key="0000000043"),
    ),
    "slurm.block-submits.v1": slurm_limits_rpc.BlockSubmits(users=("ada",), accounts=("physics",)),
    "slurm.script.v1": slurm_scripts_rpc.ReadScript(viewer=VIEWER, job_id="42_7"),
    "slurm.job-script.v1": slurm_scripts_rpc.JobScript(packed=base64.b64encode(zlib.compress(b"#!/bin/sh\ntrue\n"))),
    "slurm.steps.v1": slurm_steps_rpc.ReadSteps(viewer=VIEWER, job_id="42_7"),
    "slurm.job-steps.v1": slurm_steps_rpc.JobSteps(
        runs=(
            slurm_steps_rpc.RunSteps(
                job_id="42_7",
                started_at=MOMENT,
                ended_at=None,
                allocation=slurm_steps_rpc.Allocation(cpus=4, memory_mib=4096, gpus=1, nodes=1),
                steps=(
                    slurm_steps_rpc.JobStep(
                        step_id="0",
                        name="align",
                        state="COMPLETED",
                        started_at=MOMENT,
                        ended_at=LATER,
                        allocation=slurm_steps_rpc.Allocation(cpus=2, memory_mib=1024, gpus=0, nodes=1),
                    ),
                ),
            ),
        ),
    ),
    "slurm.nodes.v1": slurm_nodes_rpc.ListNodes(),
    "slurm.node-list.v1": slurm_nodes_rpc.NodePage(
        nodes=(
            slurm_nodes_rpc.Node(
                name="general-small-x7k2p", states=("IDLE",), cpus=4, cpus_allocated=0, memory_mib=16384
            ),
        )
    ),
    "slurm.drain.v1": slurm_nodes_rpc.Drain(node="general-small-x7k2p", reason="idle"),
    "slurm.drained.v1": slurm_nodes_rpc.Drained(accepted_at=MOMENT),
    "slurm.undrain.v1": slurm_nodes_rpc.Undrain(node="general-small-x7k2p"),
    "slurm.down.v1": slurm_nodes_rpc.Down(node="general-small-x7k2p", reason="its machine is gone"),
    "slurm.delete-node.v1": slurm_nodes_rpc.DeleteNode(node="general-small-x7k2p"),
    "slurm.set-extra.v1": slurm_nodes_rpc.SetExtra(node="general-small-x7k2p", extra='{"open":1}'),
    "slurm.diag.v1": slurm_nodes_rpc.Diagnose(),
    "slurm.diagnosis.v2": slurm_nodes_rpc.Diagnosis(
        reachable=True,
        api_version="v0.0.45",
        slurm_version="26.05.5",
        partition_found=True,
        operator_privileged=False,
    ),
    "edge.log.v2": edge_rpc.ReadLog(job_id="42", uid=20001, offset=100, wait_seconds=10),
    "edge.folder.v1": edge_folders_rpc.ListFolder(user=LOCAL_USER, path="run1", after="61", limit=100),
    "edge.folder-page.v1": edge_folders_rpc.FolderPage(
        entries=(
            edge_folders_rpc.FolderEntry(name="results", kind="folder", size=4096, modified_at=MOMENT),
            edge_folders_rpc.FolderEntry(name="x.csv", kind="file", size=18, modified_at=MOMENT),
        ),
        unreadable=1,
        after="782e637376",
    ),
    "edge.file.v1": edge_folders_rpc.ReadFile(user=LOCAL_USER, path="run1/x.csv", offset=100, limit=5),
    "edge.file-chunk.v1": edge_folders_rpc.FileChunk(
        offset=100, size=105, modified_ns=1772366400000000000, data=b"aGVsbG8="
    ),
    "edge.stage.v1": edge_staging_rpc.Stage(
        id="0123456789abcdef0123456789abcdef",
        user=LOCAL_USER,
        work=edge_staging_rpc.SendFiles(
            folder="run1",
            files=(
                edge_staging_rpc.FileUpload(
                    path="results/a.txt",
                    size=5,
                    modified_ns=1772366400000000000,
                    parts=(
                        edge_staging_rpc.SignedPart(
                            offset=0,
                            length=5,
                            url="https://s3.example.com/bucket/key?X-Amz-Signature=0",
                            headers={"Content-Length": "5"},
                        ),
                    ),
                ),
            ),
        ),
        wait_seconds=10,
    ),
    "edge.staged.v1": edge_staging_rpc.Staged(
        state="done",
        moved_bytes=5,
        copied=("results/a.txt",),
        problems=(edge_staging_rpc.StagingProblem(path="results/b", detail="Permission denied"),),
    ),
    "edge.log-chunk.v1": edge_rpc.LogChunk(offset=100, size=105, data=b"aGVsbG8="),
    "edge.session.v1": streams_rpc.ReadSession(session=SESSION),
    "edge.session-ready.v1": streams_rpc.SessionReady(
        token_cookie="code-server-session-42", streams=2, idle_seconds=7.5
    ),
    "edge.stream-open.v1": streams_rpc.OpenStream(session=SESSION),
    "edge.stream-opened.v1": streams_rpc.StreamOpened(stream_id="0123456789abcdef" * 2),
    "edge.stream-read.v1": streams_rpc.ReadStream(stream_id="0123456789abcdef" * 2, wait_seconds=10),
    "edge.stream-chunk.v1": streams_rpc.StreamChunk(number=7, data=b"aGVsbG8="),
    "edge.stream-write.v1": streams_rpc.WriteStream(stream_id="0123456789abcdef" * 2, number=3, data=b"aGVsbG8="),
    "edge.stream-written.v1": streams_rpc.StreamWritten(room=False),
    "edge.stream-cancel.v1": streams_rpc.CancelStream(stream_id="0123456789abcdef" * 2),
    "history.read.v3": history_rpc.ReadHistory(kinds=("job.*",), complete_to=41, limit=50),
    "history.tenant.v1": history_rpc.ReadTenantHistory(
        clusters=("c1", "c2"), read=history_rpc.ReadHistory(kinds=("quota.changed",))
    ),
    "history.page.v4": history_rpc.HistoryPage(events=(EVENT,), position=41),
    "revocation.v1": Revocation(of="token", subject="0123456789abcdef"),
    "mail.read-recipients.v1": mails_rpc.ReadRecipients(cluster="c1", user="ada", uid=20001),
    "mail.recipients.v1": mails_rpc.Recipients(
        recipients=(
            mails_rpc.Recipient(
                member="0123456789abcdef0123456789abcdef",
                address="ada@acme.example",
                choices=Choices(jobs_failed=True),
            ),
        )
    ),
    "bus-login.sign.v1": bus_logins_rpc.SignBusLogin(
        credential_id="bc_0123456789abcdef", public_key=USER_KEY, cluster="c1", lifetime_seconds=86_400
    ),
    "bus-login.signed.v1": bus_logins_rpc.BusLogin(
        jwt="eyJ0eXAiOiJKV1QifQ.e30.c2ln", account="A" * 56, subject="event.acme.c1.>", expires_at=LATER
    ),
    "bus-login.revoke.v1": bus_logins_rpc.RevokeBusLogins(public_keys=(USER_KEY,)),
    "webhook.test.v1": webhooks_rpc.TestWebhook(webhook=WEBHOOK),
    "webhook.attempt.v1": webhooks_rpc.Attempt(delivered=True, status=204, seconds=0.12),
    "webhook.read.v1": webhooks_rpc.ReadDeliveries(webhook_id=WEBHOOK.id, failed_only=True, limit=20, cursor="12"),
    "webhook.deliveries.v1": webhooks_rpc.DeliveryPage(
        state="retrying",
        failing_since=MOMENT,
        next_attempt_at=LATER,
        deliveries=(
            webhooks_rpc.Delivery(
                message_id="msg_0af7651916cd43dd8448eb211c80319c",
                event_id=EVENT.id,
                kind="job.failed",
                cluster="c1",
                subject="42",
                time=MOMENT,
                attempts=3,
                last=webhooks_rpc.Attempt(delivered=False, status=503, answer_bytes=12, seconds=0.2),
            ),
        ),
        cursor="11",
    ),
    "usage.read.v2": usage_rpc.ReadUsage(uid=20001, mapped={"campus": 5001}),
    "usage.v2": usage_rpc.Usage(
        burn_rate_usd_per_hour=0.0816,
        pending_bill_usd=0.0068,
        running_jobs=1,
        as_of=MOMENT,
        burn_rate_micro_usd_per_hour=81_600,
        pending_bill_micro_usd=6_800,
        month_to_date_micro_usd=1_250_000,
        forecast_micro_usd=9_750_000,
    ),
    "ledger.costs.v1": costs_rpc.ReadCosts(
        viewer=VIEWER, first=MOMENT.date(), last=LATER.date(), by=("day", "job"), limit=100
    ),
    "ledger.cost-page.v2": costs_rpc.CostPage(
        rows=(
            costs_rpc.CostRow(
                purpose="job",
                day=MOMENT.date(),
                user="ada",
                uid=20001,
                account="physics",
                template="align-reads",
                job_id="42_7",
                name="align",
                micro_usd=81_600,
                seconds=1800.0,
            ),
        ),
        shares_micro_usd=81_600,
        overhead_micro_usd=0,
        as_of=LATER,
    ),
    "ledger.job.v1": costs_rpc.ReadJobCost(viewer=VIEWER, job_id="42_7"),
    "ledger.job-cost.v1": costs_rpc.JobCost(runs=1, micro_usd=81_600, as_of=LATER),
    "ledger.runs.v1": costs_rpc.ReadRunCosts(viewer=VIEWER, job_id="42_7"),
    "ledger.run-costs.v1": costs_rpc.RunCosts(
        job=costs_rpc.JobCost(runs=1, micro_usd=81_600, as_of=LATER),
        runs=(costs_rpc.RunCost(job_id="42_7", started_at=MOMENT, micro_usd=81_600),),
    ),
    "ledger.jobs.v2": costs_rpc.ReadJobCosts(job_ids=("42_7", "43"), since=MOMENT.date()),
    "ledger.job-costs.v2": costs_rpc.JobCosts(
        costs=(costs_rpc.CostOfJob(job_id="42_7", micro_usd=81_600, running=True),),
    ),
    "ledger.spending.v1": costs_rpc.ReadSpending(viewer=VIEWER, by=("account",)),
    "ledger.spendings.v1": costs_rpc.Spending(
        rows=(
            costs_rpc.SpendingRow(
                purpose="job",
                user="ada",
                uid=20001,
                account="physics",
                running_jobs=1,
                burn_rate_micro_usd_per_hour=81_600,
                pending_bill_micro_usd=40_800,
                month_to_date_micro_usd=1_250_000,
                forecast_micro_usd=1_331_600,
            ),
        ),
        as_of=LATER,
    ),
    "why.explain.v3": why_rpc.ExplainJob(viewer=VIEWER, job_id="42_7"),
    "why.explanation.v2": why_rpc.Explanation(
        job_id="42_7",
        state="pending",
        reason="Resources",
        cause="nodes",
        text="It waits for the worker general-small-x7k2p, which has been booting for 20 s.",
        places=(why_rpc.JobPlace(kind="booting", worker="general-small-x7k2p", shape="general-small"),),
        bought=(
            why_rpc.Purchase(
                decided_at=MOMENT, generation=7, shape="general-small", workers=1, reason="1 more for pending job 42"
            ),
        ),
        expected_start=LATER,
        usd_per_hour=0.0816,
        alternatives=ALTERNATIVES,
        generation=7,
        snapshot_generation=1772366400250,
        as_of=MOMENT,
    ),
    "slurm.prepare.v2": estimate_rpc.Prepare(
        user=VIEWER.user,
        script="#!/bin/bash\n#SBATCH --time=60\ntrue\n",
        job=slurm_rpc.JobDescription(environment=("PATH=/usr/bin:/bin",)),
        further=job_fields.FurtherFields(contiguous=True),
        components=(COMPONENT,),
    ),
    "slurm.prepared.v2": estimate_rpc.Prepared(
        job=ESTIMATED, tasks=10, array=True, warnings=("line 2 of the script: no effect",), components=(ESTIMATED,)
    ),
    "estimate.job.v2": estimate_rpc.EstimateJob(job=ESTIMATED, tasks=10, components=(ESTIMATED,)),
    "estimate.v2": estimate_rpc.Estimate(
        wait="boot",
        text="It would wait for workers of the shape general-small, which would be bought.",
        workers=(estimate_rpc.EstimatedWorkers(kind="new", shape="general-small", count=2),),
        expected_start=LATER,
        usd_per_hour=0.0816,
        alternatives=ALTERNATIVES,
        limit_seconds=3600,
        tasks=10,
        snapshot_generation=1772366400250,
        as_of=MOMENT,
    ),
    "simulate.policy.v1": simulate_rpc.SimulatePolicy(
        policy=ScalingPolicy(max_workers=2, most={"general-small": 1}), generation=41, fields=("max_workers", "most")
    ),
    "simulation.v1": simulate_rpc.Simulation(
        present=simulate_rpc.SimulatedDecision(
            shapes=(
                simulate_rpc.SimulatedShape(
                    shape="general-small",
                    workers=3,
                    new=2,
                    drains=1,
                    draining=("general-small-a",),
                    victims=("general-small-b",),
                    usd_per_hour=0.4896,
                ),
            ),
            usd_per_hour=0.4896,
            placed=4,
        ),
        changed=simulate_rpc.SimulatedDecision(
            shapes=(simulate_rpc.SimulatedShape(shape="general-small", workers=1, usd_per_hour=0.1632),),
            usd_per_hour=0.1632,
            placed=2,
            waiting=2,
            waits=(simulate_rpc.SimulatedWait(count=2, reason="the cluster has reached its limit", job_ids=("42",)),),
        ),
        snapshot_generation=1772366400250,
        as_of=MOMENT,
        generation=41,
    ),
    "forget.v1": forget_rpc.Forget(most=100),
    "forgotten.v1": forget_rpc.Forgotten(removed=42),
    "rpc.done.v1": rpc.Done(),
}
