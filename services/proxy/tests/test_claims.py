"""The proxy respects the claim of an idempotency key, on a real Slurm."""

from datetime import timedelta
from typing import Any

import pytest
from bad_answers import BadAnswers
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.deadlines import BEGIN_SECONDS, CLOCK_SKEW_SECONDS
from clusterra_contracts.rpc.slurm import Claim, Submit, Submitted
from clusterra_lab.machine.process import until
from clusterra_proxy.requests.claim import SUBMIT_TIME_MARGIN, find, hides_a_key
from clusterra_proxy.slurmrestd.notation.comment import Comment
from clusterra_proxy.slurmrestd.versions import VERSIONS, Version
from clusterra_runtime.nats.rpc import RpcFailed
from job_records import at, job, task
from proxy_world import ProxyWorld, proxy_world, submission
from slurm_world import SlurmWorld

KEY = "key-00001"
COMMENT = str(Comment(user="alice", uid="5001", key=KEY))


def claimed(user: SlurmUser, *, ago: float = 0.0, may_submit: bool = True, first: bool = False, **job: Any) -> Submit:
    """A submit with a claim that was made some seconds ago."""
    sent_at = now() - timedelta(seconds=ago)
    begin_by = sent_at + timedelta(seconds=BEGIN_SECONDS) if may_submit else None
    claim = Claim(claimed_at=sent_at, sent_at=sent_at, first=first, begin_by=begin_by)
    return submission(user, key=KEY, **job).model_copy(update={"claim": claim})


async def test_a_look_finds_the_job_and_never_submits(proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser) -> None:
    error = await proxy.error_of("submit", claimed(alice, may_submit=False))
    assert (error.kind, error.effect) == ("not_found", "none")

    submitted = await proxy.call("submit", claimed(alice, first=True, hold=True), Submitted)

    async def looked() -> Submitted | None:
        # A first look may come before the watcher has seen the job: it proves nothing, so the gateway looks again.
        try:
            return await proxy.call("submit", claimed(alice, may_submit=False), Submitted)
        except RpcFailed as failed:
            if failed.error.kind != "not_found":
                raise
            return None

    found = await until(looked, seconds=90, what="a look that finds the job")

    assert (found.job_id, submitted.repeated, found.repeated) == (submitted.job_id, False, True)
    assert (await proxy.error_of("submit", claimed(bob, may_submit=False))).kind == "not_found"
    assert (await proxy.jobs(alice)).total == 1
    await proxy.cancel(alice, submitted.job_id)


@pytest.mark.parametrize("ago", [BEGIN_SECONDS + 1, -CLOCK_SKEW_SECONDS - 1], ids=["late", "from the future"])
async def test_a_claim_out_of_time_submits_nothing(proxy: ProxyWorld, alice: SlurmUser, ago: float) -> None:
    error = await proxy.error_of("submit", claimed(alice, ago=ago, first=True))

    assert (error.kind, error.effect) == ("unavailable", "none")
    assert (await proxy.jobs(alice)).total == 0


async def test_a_rejected_submit_certainly_made_no_job(proxy: ProxyWorld, alice: SlurmUser) -> None:
    error = await proxy.error_of("submit", claimed(alice, first=True, cpus_per_task=65))

    assert (error.kind, error.effect) == ("rejected", "none")


async def test_the_job_is_found_long_after_slurmctld_forgot_it(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    first = claimed(alice, first=True)
    submitted = await proxy.call("submit", first, Submitted)
    await proxy.wait_for_end(alice, submitted.job_id)
    await slurm.purge_finished_jobs(submitted.job_id)
    await proxy.kill()
    await proxy.start()

    look = await proxy.call("submit", claimed(alice, may_submit=False), Submitted)
    again = await proxy.call("submit", claimed(alice), Submitted)

    assert {look.job_id, again.job_id} == {submitted.job_id}
    assert look.repeated
    assert again.repeated


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
async def test_slurmctld_tells_its_clock_in_every_version(slurm: SlurmWorld, version: Version) -> None:
    async with slurm.slurmctld() as slurmctld:
        slurmctld._version = version

        ahead = await slurmctld.clock_ahead(slurm.token(slurm.operator))

    # It runs on this machine, and a busy machine may answer late.
    assert timedelta(minutes=-2) < ahead < timedelta(seconds=1)


async def test_a_slurm_clock_a_day_behind_makes_no_second_job(
    slurm: SlurmWorld, workers: None, alice: SlurmUser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    behind = timedelta(hours=20)

    def set_back(record: dict[str, Any]) -> None:
        for name in ("submit_time", "req_time"):
            if name in record:
                record[name]["number"] -= int(behind.total_seconds())

    relay = BadAnswers(slurm.cluster.slurmrestd_url)
    relay.spoil = set_back
    directory = tmp_path_factory.mktemp("behind")
    async with relay.serve(), proxy_world(slurm, directory, "behind", slurmrestd_url=relay.url) as proxy:
        submitted = await proxy.call("submit", claimed(alice, first=True, hold=True), Submitted)

        again = await proxy.call("submit", claimed(alice), Submitted)

        assert (again.job_id, again.repeated) == (submitted.job_id, True)
        assert (await proxy.jobs(alice)).total == 1
        await proxy.cancel(alice, submitted.job_id)


def test_a_key_is_found_by_its_owner() -> None:
    records = [job(7, comment=COMMENT), job(8, comment="other"), task(11, 10, 0, user_id=5002, comment=COMMENT)]

    assert find(records, 5001, KEY, at(0)) == Submitted(job_id="7", accepted_at=at(0), repeated=True)
    # The same key of another user is another key, and an array's key names the whole array.
    assert find(records, 5002, KEY, at(0)) == Submitted(job_id="10", accepted_at=at(0), repeated=True)
    assert find(records, 5003, KEY, at(0)) is None
    assert find(records, 5001, "key-0000", at(0)) is None


def test_a_job_of_an_expired_key_is_not_mistaken_for_a_new_one() -> None:
    claimed_at = at(0) + SUBMIT_TIME_MARGIN + timedelta(seconds=1)

    assert find([job(7, comment=COMMENT)], 5001, KEY, claimed_at) is None


@pytest.mark.parametrize("behind", [timedelta(seconds=61), timedelta(hours=1), timedelta(hours=11)])
def test_a_slurm_clock_that_is_behind_hides_no_job(behind: timedelta) -> None:
    found = find([job(7, comment=COMMENT)], 5001, KEY, at(0) + behind)

    assert found is not None
    assert found.job_id == "7"


def test_an_unreadable_record_may_hide_a_key_of_its_owner() -> None:
    assert hides_a_key(job(7, unreadable=("comment",)), 5001)
    assert not hides_a_key(job(7, unreadable=("comment",)), 5002)
    assert hides_a_key(job(7, user_id=None, unreadable=("user_id",)), 5002)
    assert not hides_a_key(job(7, unreadable=("tres_req_str",)), 5001)
