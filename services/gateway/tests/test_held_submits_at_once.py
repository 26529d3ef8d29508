"""Submits of one key at the same time, or after an attempt whose outcome nobody knows: no job stays held for ever."""

import asyncio
from dataclasses import replace

import pytest
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import Submitted
from clusterra_gateway.http.requests.errors import KeyReused, OutcomeUnknown, QuotaExceeded
from clusterra_gateway.submits.held_submits import HeldSubmits
from clusterra_runtime.nats.rpc import RpcFailed
from test_held_submits import JOB, PLAN, REF, Submit, empty_records, stored

UNREACHABLE = RpcFailed(RpcError(kind="unavailable", detail="nobody answers", effect="none"))


async def test_a_job_of_unknown_outcome_is_staged_though_the_next_attempt_certainly_fails() -> None:
    records = await empty_records()
    held = HeldSubmits(records)
    submit = Submit(OutcomeUnknown("nobody knows"), UNREACHABLE)

    for _ in range(2):
        await asyncio.gather(held.submit(REF, JOB, PLAN, submit), return_exceptions=True)

    left = await stored(records)
    assert left is not None
    assert left.phase == "submitting"


@pytest.mark.parametrize("failure", [UNREACHABLE, QuotaExceeded("no")])
async def test_a_submit_that_fails_beside_one_that_succeeds_takes_nothing_from_its_job(failure: Exception) -> None:
    records = await empty_records()
    held = HeldSubmits(records)

    async def send() -> Submitted:
        return Submitted(job_id="42", accepted_at=now())

    async def fail_after_the_other() -> Submitted:
        await held.submit(REF, JOB, PLAN, send)
        raise failure

    await asyncio.gather(held.submit(REF, JOB, PLAN, fail_after_the_other), return_exceptions=True)

    left = await stored(records)
    assert left is not None
    assert (left.phase, left.job_id) == ("staging_in", "42")
    assert await records.unfinished() == ((REF, left.id),)


async def test_another_request_with_the_key_of_a_job_does_not_get_the_job() -> None:
    held = HeldSubmits(await empty_records())
    await held.submit(REF, JOB, PLAN, Submit(Submitted(job_id="42", accepted_at=now())))

    with pytest.raises(KeyReused):
        await held.submit(REF, replace(JOB, digest="other"), PLAN, Submit())
