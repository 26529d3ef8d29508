"""Submits of held jobs: wherever one is broken off, the files of its job are staged, and of no other job."""

import asyncio
from datetime import timedelta

import pytest
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import Submitted
from clusterra_gateway.http.requests.errors import TooLarge
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.staging.table import STAGING
from clusterra_gateway.submission.staged_files import MAX_INPUTS, Input, Output, StagingPlan
from clusterra_gateway.submits.held_submits import HeldSubmits, StagedJob, staging_id
from clusterra_gateway.workflows.models import RunRequest
from clusterra_gateway.workflows.workflow import WorkflowJobSpec
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.memory_store import MemoryStore

REF = ClusterRef(tenant="acme", cluster="main")
PLAN = StagingPlan(folder="run1", outputs=(Output(source="*", destination="outputs/run1"),))
JOB = StagedJob(
    member="1" * 32, user=SlurmUser(name="ada", uid=20001, gid=20001), name="x", key="k", digest="d", stays_held=False
)
PLACE = staging_id(REF, JOB.member, JOB.key)


class Submit:
    """A submit that ends as the test says."""

    def __init__(self, *outcomes: Submitted | BaseException | None) -> None:
        self.outcomes = list(outcomes)

    async def __call__(self) -> Submitted | None:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


async def empty_records() -> StagingRecords:
    store = MemoryStore()
    await store.create_tables(STAGING)
    return StagingRecords(store)


async def stored(records: StagingRecords) -> Staging | None:
    found = await records.read(REF, PLACE)
    return None if found is None else found.staging


async def test_a_submit_that_is_cut_off_behind_its_job_is_gone_on_with() -> None:
    records = await empty_records()
    held = HeldSubmits(records)
    submit = Submit(asyncio.CancelledError(), Submitted(job_id="42", accepted_at=now(), repeated=True))

    with pytest.raises(asyncio.CancelledError):
        await held.submit(REF, JOB, PLAN, submit)
    left = await stored(records)
    await held.submit(REF, JOB, PLAN, submit)
    again = await held.submit(REF, JOB, PLAN, submit)

    after = await stored(records)
    assert left is not None
    assert after is not None
    assert (left.phase, after.phase, after.job_id) == ("submitting", "staging_in", "42")
    assert again is not None
    assert (again.job_id, again.repeated, submit.outcomes) == ("42", True, [])


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        Submitted(job_id="7", accepted_at=now() - timedelta(hours=1), repeated=True),
        RpcFailed(RpcError(kind="invalid", detail="no")),
    ],
    ids=["no job", "a job from before", "refused"],
)
async def test_nothing_is_staged_where_the_submit_made_no_job(outcome: Submitted | Exception | None) -> None:
    records = await empty_records()
    held = HeldSubmits(records)

    await asyncio.gather(held.submit(REF, JOB, PLAN, Submit(outcome)), return_exceptions=True)

    assert await stored(records) is None
    assert await held.known(REF, JOB.member, JOB.key) is None


async def test_a_staging_that_was_given_up_without_a_job_begins_anew() -> None:
    records = await empty_records()
    held = HeldSubmits(records)
    with pytest.raises(asyncio.CancelledError):
        await held.submit(REF, JOB, PLAN, Submit(asyncio.CancelledError()))
    before = await records.read(REF, PLACE)
    assert before is not None
    await records.replace(REF, before, before.staging.model_copy(update={"phase": "failed"}))

    await held.submit(REF, JOB, PLAN, Submit(Submitted(job_id="42", accepted_at=now(), repeated=True)))

    after = await stored(records)
    assert after is not None
    assert (after.phase, after.job_id, after.created_at) == ("staging_in", "42", before.staging.created_at)
    assert await records.unfinished() == ((REF, PLACE),)


async def test_a_staging_that_cannot_be_stored_is_refused_before_there_is_a_job() -> None:
    records = await empty_records()
    submit = Submit()
    inputs = tuple(
        Input(source="data/x", key="k" * 900, destination=f"{'/'.join(['名' * 80] * 12)}{number}", size=1, etag="e")
        for number in range(MAX_INPUTS)
    )

    with pytest.raises(TooLarge, match="320 KiB"):
        await HeldSubmits(records).submit(REF, JOB, StagingPlan(folder="run1", inputs=inputs), submit)

    assert await stored(records) is None


def test_a_step_with_files_is_not_read_by_a_release_that_would_submit_it_without() -> None:
    job = {"environment": ["PATH=/bin"]}
    with_files = WorkflowJobSpec.model_validate({"script": "#!/bin/sh", "job": job, "staging": PLAN.model_dump()})
    without = WorkflowJobSpec.model_validate({"script": "#!/bin/sh", "job": job})

    assert WorkflowJobSpec.model_validate(with_files.attributes()) == with_files
    assert WorkflowJobSpec.model_validate(without.attributes()) == without
    assert set(without.attributes()) == {"script", "job"}
    assert set(with_files.attributes()) == {"staged_step"}


def test_a_step_with_further_fields_is_not_read_by_a_release_that_would_submit_it_without() -> None:
    stored = {"script": "#!/bin/sh", "job": {"environment": ["PATH=/bin"]}, "further": {"cpus_per_tres": "gres/gpu:2"}}
    step = WorkflowJobSpec.model_validate(stored | {"staging": PLAN.model_dump()})

    assert WorkflowJobSpec.model_validate(step.attributes()) == step
    assert set(step.attributes()) == {"further_step"}


def test_a_run_without_files_has_the_digest_of_earlier_releases() -> None:
    steps = [{"step_id": "a", "script": "#!/bin/sh", "job": {"environment": ["PATH=/bin"]}}]
    plain = RunRequest.model_validate({"run_name": "x", "steps": steps})
    empty = RunRequest.model_validate({"run_name": "x", "steps": [steps[0] | {"stage_out": []}]})
    staged = RunRequest.model_validate(
        {"run_name": "x", "steps": [steps[0] | {"stage_out": [{"source": "a", "destination": "outputs/"}]}]}
    )

    assert plain.digest() == empty.digest()
    assert plain.digest() != staged.digest()
