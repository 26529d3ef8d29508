"""Changes jobs after their submit: hold, release, requeue, signal, update, and cancel of selected tasks."""

from typing import Any, Never, assert_never

from clusterra_contracts.events import ActionKind
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_jobs import (
    Action,
    CancelTasks,
    ChangeJob,
    Hold,
    Release,
    Requeue,
    SendSignal,
    Update,
)

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.actions import Actions
from clusterra_proxy.requests.cancel import check_may_change, refresh_job
from clusterra_proxy.requests.query import select_records
from clusterra_proxy.requests.sizes import checked_sizes, sizes_of
from clusterra_proxy.requests.view import component_ids
from clusterra_proxy.slurmrestd.error_codes import ACCESS_DENIED
from clusterra_proxy.slurmrestd.errors import Conflict, Forbidden, NotFound, Rejected
from clusterra_proxy.slurmrestd.notation import array_tasks
from clusterra_proxy.slurmrestd.records import JobRecord

KINDS: dict[str, ActionKind] = {
    "hold": "action.hold",
    "release": "action.release",
    "requeue": "action.requeue",
    "signal": "action.signal",
    "cancel": "action.cancel",
    "update": "action.update",
}
"""The event of each action."""
MAX_DETAIL_CHARACTERS = 500


async def change_job(actions: Actions, cluster: Cluster, request: ChangeJob) -> Done:
    """Change a job, an array or some of its tasks, and note who did it.

    An owner's change uses the owner's token. An admin's uses the proxy's where the job is another user's, and where
    Slurm refuses the change to the owner. Raises NotFound, also for a job that the viewer does not see, Forbidden for
    one that they only see and for what Slurm lets only its operators do, Conflict where the job's state does not allow
    it, and Rejected with Slurm's reason.
    """
    records = await _read(cluster, request)
    viewer, jobs, change = request.viewer, request.jobs, request.change
    if isinstance(change, Update) and not _described(change):
        return Done()
    if viewer.owns(records[0].user_id):
        await _apply_as_owner(cluster, viewer, jobs, records, change)
    else:
        await _apply(cluster, cluster.mint.operator_token(), jobs, records, change)
    cluster.follow_own_change(refresh_job(cluster, str(records[0].het_job_id or _whole(jobs))))
    await actions.note(KINDS[change.action], viewer, jobs, records[0], _detail(change))
    return Done()


async def _apply_as_owner(
    cluster: Cluster, viewer: Viewer, jobs: str, records: tuple[JobRecord, ...], change: Action
) -> None:
    try:
        await _apply(cluster, await cluster.user_token(viewer.user), jobs, records, change)
    except Forbidden as refused:
        if refused.error.code != ACCESS_DENIED:
            raise
        if not viewer.admin:
            raise Forbidden(refused.error.detail, hint=_for_operators(change), code=ACCESS_DENIED) from None
        # An admin may do to their own job what they may do to all others.
        await _apply(cluster, cluster.mint.operator_token(), jobs, records, change)


def _for_operators(change: Action) -> str:
    """Return what of a change Slurm does not let the owner of a job do."""
    match change:
        case Release():
            return "an admin holds it: only an admin can release it"
        case Update() if change.changes.time_limit is not None:
            return (
                "Slurm lets only an operator raise the time limit of a job that has started: ask an admin;"
                " its owner can lower it, and raise it before the start"
            )
        case _:
            return "Slurm lets only an operator do this: ask an admin"


async def _apply(cluster: Cluster, token: str, jobs: str, records: tuple[JobRecord, ...], change: Action) -> None:
    match change:
        case Hold() | Release():
            _require_pending(jobs, records, change.action)
            # A hold of one component would keep all of them waiting, and Slurm would say why of that one alone.
            for each in component_ids(records[0]) or (jobs,):
                await _update(cluster, token, each, records, {"hold": isinstance(change, Hold)})
        case Update():
            sizes = await checked_sizes(cluster, records, change.further)
            try:
                await _update(cluster, token, jobs, records, _described(change) | sizes)
            except Rejected:
                # Slurm refuses too many tasks only when it has counted their CPUs, and leaves those of the job so.
                if sizes:
                    await _update(cluster, token, jobs, records, sizes_of(records[0]))
                raise
            await _check_qos(cluster, jobs, change.further.qos)
        case Requeue(hold=hold):
            await cluster.slurmctld.requeue(token, _startable_again(jobs, records), hold=hold)
        case SendSignal(signal=signal, batch_only=batch_only):
            await cluster.slurmctld.signal(token, jobs, signal, batch_only=batch_only)
        case CancelTasks():
            await cluster.slurmctld.kill(token, jobs)
        case _:
            assert_never(change)


async def _read(cluster: Cluster, request: ChangeJob) -> tuple[JobRecord, ...]:
    """Read the selected records from Slurm: an observation of two seconds ago may show another state."""
    jobs, viewer = request.jobs, request.viewer
    await cluster.wait_for_own_changes()
    requested_at = now()
    try:
        records = await cluster.slurmctld.job(cluster.mint.operator_token(), _whole(jobs))
    except NotFound:
        await _raise_ended_or_unknown(cluster, viewer, jobs)
    cluster.observe_jobs(records, requested_at)
    check_may_change(viewer, records[0], jobs)
    selected = _selected(jobs, records)
    if not selected:
        raise NotFound(f"job {jobs} does not exist")
    return selected


async def _raise_ended_or_unknown(cluster: Cluster, viewer: Viewer, jobs: str) -> Never:
    """Raise Conflict for a job that only accounting knows, and NotFound for any other."""
    if await cluster.accounting.job(cluster.mint.operator_token(), _whole(jobs), uid=viewer.only_uid):
        raise Conflict(f"job {jobs} has ended", hint="Slurm has put it away: submit it again")
    raise NotFound(f"job {jobs} does not exist")


def _whole(jobs: str) -> str:
    """Return the number of the job or the array of a selection."""
    return jobs.partition("_")[0]


def _selected(jobs: str, records: tuple[JobRecord, ...]) -> tuple[JobRecord, ...]:
    tasks = jobs.partition("_")[2].strip("[]")
    if "[" not in jobs:
        return select_records(jobs, records)
    return tuple(
        record
        for record in records
        if (record.array_task_id is not None and array_tasks.contains(tasks, record.array_task_id))
        or (record.is_waiting_array and array_tasks.overlap(tasks, record.array_task_string))
    )


def _startable_again(jobs: str, records: tuple[JobRecord, ...]) -> tuple[str, ...]:
    """Return what to requeue: of several tasks those that have started. Raises Conflict when none has.

    Slurm requeues all components of a heterogeneous job, and by the first one alone.
    """
    if leader := records[0].het_job_id:
        return (str(leader),)
    if "[" not in jobs:
        return (jobs,)
    started = tuple(record.id for record in records if record.state != "PENDING")
    if not started:
        raise Conflict(f"job {jobs}: none of these tasks has started", hint="the tasks wait already")
    return started


def _require_pending(jobs: str, records: tuple[JobRecord, ...], action: str) -> None:
    """Raise Conflict when nothing selected is pending: Slurm would accept the change and do nothing now."""
    if any(record.state == "PENDING" for record in records):
        return
    if all(record.ended for record in records):
        raise Conflict(f"job {jobs} has ended")
    raise Conflict(
        f"job {jobs} is {records[0].state.lower()}: Slurm can only {action} a pending job",
        hint="requeue it with `hold` to keep it from running",
    )


async def _update(
    cluster: Cluster, token: str, jobs: str, records: tuple[JobRecord, ...], fields: dict[str, Any]
) -> None:
    if "_" not in jobs:
        await cluster.slurmctld.update_job(token, int(jobs), fields)
        return
    for record in records:
        # The last task of an array has the array's number, and Slurm would change all tasks.
        if record.is_waiting_array or record.job_id == record.array:
            raise Rejected(
                "slurmrestd cannot change single tasks of an array that have not started",
                hint=f"change the whole array, {_whole(jobs)}",
            )
    for record in records:
        await cluster.slurmctld.update_job(token, record.job_id, fields)


async def _check_qos(cluster: Cluster, jobs: str, wanted: str | None) -> None:
    """Raise Rejected where Slurm left the QOS as it was: slurmrestd answers with success even then."""
    if wanted is None:
        return
    records = await cluster.slurmctld.job(cluster.mint.operator_token(), _whole(jobs))
    for record in _selected(jobs, records):
        if not record.ended and wanted.lower() != record.qos.lower():
            raise Rejected(
                f"Slurm left the QOS of job {record.id} at {record.qos or 'none'}",
                hint="name an existing QOS that the job's user may use; what else was asked for is changed",
            )


def _described(change: Update) -> dict[str, Any]:
    """Return the changes as slurmrestd takes them."""
    fields = _given(change)
    for name in ("time_limit", "begin_time", "time_minimum", "memory_per_node", "memory_per_cpu"):
        if name in fields:
            fields[name] = {"set": True, "number": fields[name]}
    return fields


def _given(change: Update) -> dict[str, Any]:
    return change.changes.model_dump(exclude_none=True) | change.further.model_dump(mode="json", exclude_none=True)


def _detail(change: Action) -> str:
    match change:
        case SendSignal(signal=signal):
            return signal
        case Update():
            fields = _given(change)
            return ", ".join(f"{name}={fields[name]}" for name in sorted(fields))[:MAX_DETAIL_CHARACTERS]
        case _:
            return ""
