"""The SDK against the whole product. A gateway that is killed while an output is followed, or a job submitted, loses
nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from clusterra import AsyncClient, AsyncJob, Client, Forbidden, NotFound, Refused, SignInNeeded, WaitTimeout
from clusterra.credentials import store
from clusterra.operations.events import StreamedEvent
from clusterra.operations.jobs import JobFilter
from clusterra.operations.outputs import Ended, OutputText
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SECONDS = 240.0
COUNTING = """#!/bin/sh
for i in $(seq 1 60); do echo "line $i"; sleep 0.1; done
printf 'raw \\377\\f\\033[31m <b>'
exit 7
"""


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLUSTERRA_CONFIG", str(tmp_path / "clusterra" / "config.toml"))
    for name in ("CLUSTERRA_URL", "CLUSTERRA_TOKEN", "CLUSTERRA_CLUSTER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def token(ada: User) -> AsyncIterator[str]:
    async with ada.api_token("sdk") as token:
        yield token


@pytest.fixture
async def client(lab: Stack, ada: User, token: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(lab.gateway_url, token, cluster=ada.cluster) as client:
        yield client


def _whole_life(lab: Stack, cluster: str, token: str) -> None:
    """What a script without asyncio does."""
    store(lab.gateway_url, token)
    with Client(lab.gateway_url, cluster=cluster) as client:
        assert client.me().email == "ada@acme.example"
        assert [each.id for each in client.clusters()] == [cluster]
        assert client.shapes()

        estimate = client.estimate(COUNTING, {"time_limit": 5})
        assert estimate.cost is not None

        job = client.submit(COUNTING, {"name": "counting", "time_limit": 5})
        assert job.record.state in ("PENDING", "RUNNING")
        assert job.why().state in ("pending", "running")

        text = "".join(job.follow())
        assert text == "".join(f"line {number}\n" for number in range(1, 61)) + "raw \ufffd\f\x1b[31m <b>"

        result = job.result(timeout=SECONDS)
        assert (result.exit_code, result.returncode, result.state) == (7, 7, "FAILED")
        assert result.output == text
        assert "".join(job.follow(tail=1)) == "raw \ufffd\f\x1b[31m <b>"
        assert "".join(job.follow(tail=0)) == ""
        assert job.output(tail=1) == "raw \ufffd\f\x1b[31m <b>"
        assert job.why().state == "ended"

        assert job.id in [each.job_id for each in client.jobs(name="counting", limit=5)]
        assert [each.job_id for each in client.jobs(limit=1)]
        assert client.costs(by="user").bill
        assert client.nodes() is not None
        assert client.templates()


async def test_a_script_submits_follows_and_asks(lab: Stack, ada: User, token: str) -> None:
    await asyncio.to_thread(_whole_life, lab, ada.cluster, token)


async def test_a_job_is_awaited_by_events_and_cancelled(client: AsyncClient) -> None:
    job = await client.submit("#!/bin/sh\nsleep 600\n", {"time_limit": 15, "hold": True})

    with pytest.raises(WaitTimeout):
        await job.wait(timeout=2)
    waiting = asyncio.create_task(job.wait(timeout=SECONDS))
    await job.hold()
    await job.update(name="renamed")
    await job.release()
    await job.cancel()
    record = await waiting

    assert (record.state, record.name) == ("CANCELLED", "renamed")
    result = await job.result(timeout=SECONDS)
    assert (result.exit_code, result.returncode, result.ok) == (None, 1, False)


async def test_many_jobs_are_awaited(client: AsyncClient) -> None:
    jobs = [await client.submit(f"#!/bin/sh\nexit {number}\n", {"time_limit": 5}) for number in range(12)]
    by_reads = asyncio.gather(*(job.wait(timeout=SECONDS) for job in jobs))

    ended = {job.id: job.record async for job in client.as_completed(jobs, timeout=SECONDS)}

    codes = [record.exit_code if (record := ended[job.id]) is not None else None for job in jobs]
    assert codes == list(range(12))
    assert [record.exit_code for record in await by_reads] == list(range(12))


async def test_an_array_has_ended_with_its_last_task(client: AsyncClient) -> None:
    job = await client.submit("#!/bin/sh\n#SBATCH --array=0-2\nexit $SLURM_ARRAY_TASK_ID\n", {"time_limit": 5})

    record = await job.wait(timeout=SECONDS)

    assert (record.state, record.exit_code) == ("FAILED", 2)
    task = client.job(f"{job.id}_0")
    assert (await task.wait(timeout=SECONDS)).state == "COMPLETED"


async def test_events_tell_of_a_job(client: AsyncClient) -> None:
    told: list[StreamedEvent] = []

    async def read() -> None:
        async for each in client.event_stream():
            if isinstance(each, StreamedEvent):
                told.append(each)
                if each.event.data["kind"] == "job.completed":
                    return

    reading = asyncio.create_task(read())
    job = await client.submit("#!/bin/sh\ntrue\n", {"time_limit": 5})
    await asyncio.wait_for(reading, SECONDS)

    assert told[-1].event.data["job_id"] == job.id
    # Behind the position of the event before, the same event is told again.
    async with asyncio.timeout(SECONDS):
        async for each in client.events(str(int(told[-1].position) - 1)):
            assert each.id == told[-1].event.id
            break


async def test_a_template_is_launched_and_its_job_can_be_read_from_all_sides(client: AsyncClient) -> None:
    assert "shell" in [each.id for each in await client.templates()]

    launched = await client.launch("shell", {"commands": "sleep 600"}, key="sdk-launch-01")
    again = await client.launch("shell", {"commands": "sleep 600"}, key="sdk-launch-01")

    assert (again.job_id, again.repeated) == (launched.job_id, True)
    assert launched.job_id is not None
    job = client.job(launched.job_id)

    async def runs() -> bool:
        return (await job.refresh()).state == "RUNNING"

    await until(runs, seconds=SECONDS, what="a running job")
    record = await job.refresh()
    found = {node.name: node for node in await client.nodes()}
    assert set(record.nodes) <= found.keys()
    assert all(found[name].cpus > 0 and found[name].state for name in record.nodes)
    await job.signal("USR1", batch_only=True)
    await job.cancel()
    assert (await job.wait(timeout=SECONDS)).state in ("FAILED", "CANCELLED")

    async def archived() -> bool:
        return {"job.submitted", "job.running"} <= {each.data["kind"] async for each in job.events()}

    await until(archived, seconds=SECONDS, what="the job's events in the archive")
    newest = [each async for each in client.history("job.*", newest_first=True, limit=3)]
    assert len(newest) == 3
    assert newest[0].time >= newest[-1].time


async def test_a_job_is_found_counted_told_and_shared(client: AsyncClient) -> None:
    job = await client.submit("#!/bin/sh\ntrue\n", {"name": "found-by-a-part", "time_limit": 5})
    assert [each.job_id async for each in client.jobs(search="D-BY-A")] == [job.id]
    assert (await client.job_counts(JobFilter(search="d-by-a"))).total == 1
    assert (await client.job_counts()).total >= 1
    # A worker that was there before has started before the submit.
    assert "submitted" in {each.stage for each in (await job.timeline()).stages}

    made = await job.share("for the review", shows=("output",), days=1)
    assert made.path.endswith(made.token)
    assert [each.id for each in await job.links()] == [made.id]
    # Other tests of this lab share jobs of the same user.
    own = {each.id: each async for each in client.links()}
    assert (own[made.id].job_id, own[made.id].cluster_id) == (job.id, client.cluster)
    await job.revoke_link(made.id)
    assert made.id not in {each.id async for each in client.links()}

    await job.wait(timeout=SECONDS)
    assert {each.name for each in [each async for each in client.workers()]}
    assert await _script(job) == "#!/bin/sh\ntrue\n"


async def _script(job: AsyncJob) -> str:
    """The script of a job, as soon as Slurm's accounting has it."""

    async def kept() -> str | None:
        try:
            return await job.script()
        except NotFound:
            return None

    return await until(kept, seconds=SECONDS, what="the script in Slurm's accounting")


def _found_counted_told_and_shared(lab: Stack, token: str, cluster: str, job_id: str) -> None:
    """What a script without asyncio asks of a job whose script is known."""
    with Client(lab.gateway_url, token, cluster=cluster) as client:
        job = client.job(job_id)
        assert [each.job_id for each in client.jobs(search="N-BY-A")] == [job.id]
        assert client.job_counts(JobFilter(search="n-by-a")).total == 1
        assert "submitted" in {each.stage for each in job.timeline().stages}
        assert job.script() == "#!/bin/sh\nexit 2\n"
        assert list(client.workers())

        made = job.share("for the review", shows=("output", "cost"), days=1)
        assert (made.path.endswith(made.token), made.shows) == (True, ("output", "cost"))
        assert [each.id for each in job.links()] == [made.id]
        own = {each.id: each for each in client.links()}
        assert (own[made.id].job_id, own[made.id].cluster_id) == (job.id, cluster)
        job.revoke_link(made.id)
        assert made.id not in {each.id for each in client.links()}
        assert job.links() == []


async def test_a_script_without_asyncio_asks_the_same(lab: Stack, token: str, client: AsyncClient) -> None:
    job = await client.submit("#!/bin/sh\nexit 2\n", {"name": "seen-by-a-script", "time_limit": 5})
    await job.wait(timeout=SECONDS)
    await _script(job)
    assert client.cluster is not None
    await asyncio.to_thread(_found_counted_told_and_shared, lab, token, client.cluster, job.id)


async def test_schedules_are_paused_and_run(client: AsyncClient) -> None:
    new = {"name": "yearly", "template_id": "shell", "cron": "0 0 1 1 *", "params": {"commands": "true"}}
    made = (await client.request("POST", "/v1/schedules", body=new)).json
    try:
        paused = await client.change_schedule(made["id"], paused=True, cron="0 0 29 2 *")
        assert (paused.paused, paused.cron) == (True, "0 0 29 2 *")
        ran = await client.run_schedule(made["id"], key="sdk-schedule-run")
        again = await client.run_schedule(made["id"], key="sdk-schedule-run")
        assert ran.last_job is not None
        assert ran.last_job == again.last_job
        assert [each.paused async for each in client.schedules() if each.id == made["id"]] == [True]
    finally:
        await client.request("DELETE", f"/v1/schedules/{made['id']}")


async def test_what_is_read_of_people_and_money(client: AsyncClient) -> None:
    assert "sdk" in [each.name for each in await client.tokens()]
    with pytest.raises(Forbidden, match="sign in"):
        await client.make_token("more", ("profile",), days=1)
    assert isinstance(await client.quotas(), list)
    assert isinstance(await client.budgets(), list)
    report = await client.costs(by=("user", "day"), first=datetime.now(UTC).date())
    assert report.bill.currency == "USD"
    assert (await client.cluster_detail()).max_workers > 0
    answer = await client.request("GET", "/v1/clusters", query={})
    assert answer.json["total"] == 1


async def test_errors_are_types_with_hints(lab: Stack, client: AsyncClient) -> None:
    with pytest.raises(NotFound):
        await client.job("4000000").refresh()
    with pytest.raises(Refused) as refused:
        await client.submit("#!/bin/sh\ntrue\n", {"nodess": "2"})
    assert refused.value.errors
    assert refused.value.hint
    assert "nodess" in str(refused.value)
    async with AsyncClient(lab.gateway_url, "clusterra_" + "x" * 43) as stranger:
        with pytest.raises(SignInNeeded):
            await stranger.me()


async def test_a_gateway_that_is_killed_while_an_output_is_followed_loses_nothing(
    lab: Stack, client: AsyncClient
) -> None:
    script = '#!/bin/sh\nfor i in $(seq 1 400); do echo "line $i"; sleep 0.05; done\n'
    job = await client.submit(script, {"time_limit": 5})
    waiting = asyncio.create_task(job.wait(timeout=SECONDS))
    pieces = []
    killed = 0

    async with asyncio.timeout(SECONDS):
        async for piece in job.pieces():
            pieces.append(piece)
            if killed < 2 and len(pieces) >= 20 * (killed + 1):
                killed += 1
                lab.services["gateway"].kill()
                await lab.restart("gateway")

    assert killed == 2
    assert isinstance(pieces[-1], Ended)
    text = "".join(piece.text for piece in pieces if isinstance(piece, OutputText))
    assert text.splitlines() == [f"line {number}" for number in range(1, 401)]
    assert (await waiting).state == "COMPLETED"


async def test_one_key_makes_one_job_while_the_gateway_is_killed(lab: Stack, client: AsyncClient) -> None:
    async def submit() -> str:
        return (await client.submit("#!/bin/sh\ntrue\n", {"name": "once", "hold": True}, key="sdk-once-0001")).id

    submits = [asyncio.create_task(submit()) for _ in range(4)]
    lab.services["gateway"].kill()
    await lab.restart("gateway")
    ids = set(await asyncio.gather(*submits))

    assert len(ids) == 1
    jobs = [each.job_id async for each in client.jobs(name="once")]
    assert jobs == list(ids)
    await client.job(jobs[0]).cancel()


async def test_pages_are_one_iterator(client: AsyncClient) -> None:
    held = [await client.submit("#!/bin/sh\ntrue\n", {"name": "paged", "hold": True}) for _ in range(3)]

    found = [each.job_id async for each in client.jobs(name="paged", limit=2)]

    assert found == [each.id for each in islice(reversed(held), 2)]
    for each in held:
        await each.cancel()
