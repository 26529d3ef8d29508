"""A list of accounting that readers share is never older than what slurmctld no longer tells.

Whatever the gateway's `Event-Position` has seen by the time of a page must show in that page.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.slurm import ListJobs, Viewer
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.cluster.recent_jobs import recent_runs
from clusterra_proxy.cluster.recent_list import RecentList
from clusterra_proxy.cluster.recent_lists import RecentLists
from clusterra_proxy.requests.query import list_jobs
from clusterra_proxy.slurmrestd.accounting_records import SUPERSEDED
from clusterra_proxy.slurmrestd.errors import NotFound
from clusterra_proxy.watch.job_poll import JobPoll
from job_records import BEGIN, at, job, task, waiting_array
from test_recent_runs import ADA, PlayedCluster, PlayedSlurmdbd, run

POLLED = timedelta(seconds=1)


@pytest.fixture
def slurmdbd() -> PlayedSlurmdbd:
    return PlayedSlurmdbd()


@pytest.fixture
async def cluster(slurmdbd: PlayedSlurmdbd) -> AsyncIterator[Any]:
    runs = recent_runs(slurmdbd.accounting(), lambda: "token")
    yield PlayedCluster(runs)
    await runs.close()


def store(slurmdbd: PlayedSlurmdbd, number: int, state: str, submit: int = 0, **fields: Any) -> None:
    """Put a run into accounting in place of what it had of it: one with this number and submit time."""
    _, stored = run(number, 5001)
    submitted = int(BEGIN.timestamp()) + submit
    kept = [each for each in slurmdbd.runs if (each[1].job_id, each[1].time.submission) != (number, at(submit))]
    values = {
        "job_id": number,
        "user": stored.user,
        "state": {"current": [state]},
        "time": {"submission": submitted},
        **fields,
    }
    slurmdbd.runs = [*kept, (5001, type(stored).model_validate(values))]


def poll(cluster: Any, *records: Any) -> None:
    """Slurmctld has these records and no others."""
    cluster.jobs.replace(records, now())


async def shown(cluster: Any) -> list[tuple[str, str]]:
    page = await list_jobs(cluster, ListJobs(viewer=ADA, submitted_after=BEGIN, sort="submitted", limit=1000))
    return [(each.job_id, each.state) for each in page.jobs]


async def test_live_jobs_come_from_slurmctld_over_the_shared_list(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    store(slurmdbd, 1, "COMPLETED")
    store(slurmdbd, 2, "RUNNING")
    poll(cluster, job(2, "RUNNING"))
    assert await shown(cluster) == [("1", "COMPLETED"), ("2", "RUNNING")]

    poll(cluster, job(2, "CANCELLED"), job(3, submit=5))

    assert await shown(cluster) == [("1", "COMPLETED"), ("2", "CANCELLED"), ("3", "PENDING")]
    assert len(slurmdbd.asked) == 1


async def test_a_job_that_ended_and_was_purged_since_has_its_end(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    store(slurmdbd, 1, "RUNNING")
    poll(cluster, job(1, "RUNNING"))
    assert await shown(cluster) == [("1", "RUNNING")]

    store(slurmdbd, 1, "FAILED")
    poll(cluster)

    assert await shown(cluster) == await shown(cluster) == [("1", "FAILED")]
    assert len(slurmdbd.asked) == 2


async def test_a_read_that_began_before_the_purge_is_not_shared(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    store(slurmdbd, 1, "RUNNING")
    poll(cluster, job(1, "RUNNING"))
    may_end, began = asyncio.Event(), asyncio.Event()
    read_list = slurmdbd.read_list

    async def slow(*given: Any, **named: Any) -> Any:
        answer = await read_list(*given, **named)
        began.set()
        await may_end.wait()
        return answer

    cast("Any", slurmdbd).read_list = slow
    first = asyncio.create_task(shown(cluster))
    await began.wait()
    store(slurmdbd, 1, "FAILED")
    poll(cluster)
    second = asyncio.create_task(shown(cluster))
    may_end.set()

    assert await first == [("1", "RUNNING")], "as slurmctld told when it was asked"
    assert await second == [("1", "FAILED")]


async def test_a_requeued_job_is_there_once(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    store(slurmdbd, 1, "RUNNING")
    poll(cluster, job(1, "RUNNING"))
    await shown(cluster)

    poll(cluster, job(1, submit=9, restart_cnt=1))

    assert await shown(cluster) == [("1", "PENDING")], "accounting is behind"


async def test_an_ended_run_that_was_requeued_is_there_once(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    store(slurmdbd, 1, "COMPLETED")
    poll(cluster, job(1, "COMPLETED"))
    await shown(cluster)

    store(slurmdbd, 1, SUPERSEDED)
    poll(cluster, job(1, submit=9, restart_cnt=1))

    assert await shown(cluster) == [("1", "PENDING")]


async def test_the_last_task_of_an_array_takes_the_waiting_record_with_it(
    slurmdbd: PlayedSlurmdbd, cluster: Any
) -> None:
    store(slurmdbd, 5, "PENDING", array={"job_id": 5, "task": "0x1"})
    poll(cluster, waiting_array(5, "0"))
    assert await shown(cluster) == [("5", "PENDING")]

    poll(cluster, task(5, 5, 0))

    assert await shown(cluster) == [("5_0", "RUNNING")]


async def test_slurmctld_that_forgot_all_jobs_at_its_restart(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    store(slurmdbd, 1, "RUNNING")
    poll(cluster, job(1, "RUNNING"))
    await shown(cluster)

    cluster.jobs_listable = False
    store(slurmdbd, 1, "NODE_FAIL")
    cluster.jobs = JobTable()
    assert await shown(cluster) == await shown(cluster) == [("1", "NODE_FAIL")]
    assert len(slurmdbd.asked) == 3, "without polls nobody sees what leaves: each list is read anew"

    store(slurmdbd, 1, "COMPLETED", submit=20)
    cluster.jobs_listable = True
    poll(cluster, job(1, "RUNNING", submit=20))
    assert await shown(cluster) == [("1", "NODE_FAIL"), ("1", "RUNNING")]


async def test_a_replica_that_does_not_watch_shares_only_reads_that_began_later(
    slurmdbd: PlayedSlurmdbd, cluster: Any
) -> None:
    store(slurmdbd, 1, "COMPLETED")
    cluster.jobs_listable = False

    await asyncio.gather(*(shown(cluster) for _ in range(20)))

    assert len(slurmdbd.asked) <= 2


def played_poll(slurmdbd: PlayedSlurmdbd, cluster: Any) -> tuple[Any, list[str]]:
    """The watcher's poll of a cluster, and the states of which it queues events."""
    cluster.accounting = slurmdbd.accounting()
    cluster.mint.operator_token = lambda: "token"
    watching = cast("Any", JobPoll.__new__(JobPoll))
    watching._cluster, watching._published, watching._lost = cluster, object(), {}
    queued: list[str] = []
    watching.queue_events = lambda records: queued.extend(each.state for each in records)
    return watching, queued


async def test_events_that_no_replica_saw_are_in_the_next_list(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    watching, queued = played_poll(slurmdbd, cluster)
    store(slurmdbd, 1, "RUNNING")
    assert await shown(cluster) == [("1", "RUNNING")]

    store(slurmdbd, 1, "FAILED")
    watching.replay([job(1, "FAILED")])

    assert (await shown(cluster), queued) == ([("1", "FAILED")], ["FAILED"])


async def test_a_job_that_was_purged_before_it_was_read_is_in_the_next_list(
    slurmdbd: PlayedSlurmdbd, cluster: Any
) -> None:
    watching, _ = played_poll(slurmdbd, cluster)
    assert await shown(cluster) == []

    async def purged(_token: str, _job: str) -> Any:
        raise NotFound("job 1 does not exist")

    store(slurmdbd, 1, "COMPLETED")
    cluster.slurmctld = SimpleNamespace(job=purged)
    await watching._read_one("token", 1)

    assert await shown(cluster) == [("1", "COMPLETED")]


async def test_the_end_of_a_lost_job_is_in_the_next_list(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    store(slurmdbd, 1, "RUNNING")
    poll(cluster, job(1, "RUNNING"))
    watching, queued = played_poll(slurmdbd, cluster)
    watching._note_lost(cluster.jobs.replace((), now()))
    await watching.resolve_lost_jobs()
    assert (await shown(cluster), queued) == ([("1", "RUNNING")], []), "slurmdbd has not heard of the end"

    store(slurmdbd, 1, "FAILED")
    await watching.resolve_lost_jobs()

    assert (await shown(cluster), queued) == ([("1", "FAILED")], ["FAILED"])


async def test_no_page_skips_or_doubles_a_job_when_the_list_is_replaced(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    for number in range(1, 31):
        store(slurmdbd, number, "COMPLETED", submit=number)
    records = [job(number, "COMPLETED", submit=number) for number in range(21, 31)]
    poll(cluster, *records)
    asked = ListJobs(viewer=ADA, submitted_after=BEGIN, limit=4)
    found: list[str] = []
    while True:
        page = await list_jobs(cluster, asked)
        found += [each.job_id for each in page.jobs]
        if page.cursor is None:
            break
        asked = asked.model_copy(update={"cursor": page.cursor})
        # One is purged, and a new one is submitted: the next page has another list.
        records = [*records[1:], job(100 + len(found), submit=200 + len(found))]
        poll(cluster, *records)

    assert found == [str(number) for number in range(30, 0, -1)]
    assert len(slurmdbd.asked) == 8


async def test_viewers_see_their_own_jobs_of_what_is_shared(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    slurmdbd.runs = [run(number, 5001 + number % 3, 5001 + number % 3) for number in range(1, 31)]
    admin = await list_jobs(cluster, ListJobs(viewer=Viewer(user=ADA.user, admin=True), submitted_after=BEGIN))
    own = await list_jobs(cluster, ListJobs(viewer=ADA, submitted_after=BEGIN))

    assert (admin.total, own.total, {each.uid for each in own.jobs}) == (30, 10, {5001})


async def test_a_reader_has_the_list_that_was_read_though_it_is_forgotten_at_once() -> None:
    async def read() -> tuple[datetime, tuple[int, ...]]:
        began = now()
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(recent.forget)
        return began, (1, 2, 3)

    recent = RecentList[tuple[int, ...]](read, ())

    assert await asyncio.gather(*(recent.get(now()) for _ in range(3))) == [(1, 2, 3)] * 3
    await recent.close()


async def test_a_list_from_before_a_moment_is_read_again() -> None:
    reads = 0

    async def read(_key: str) -> tuple[datetime, int]:
        nonlocal reads
        reads += 1
        return now(), reads

    lists = RecentLists(read, 0, most=2)
    assert [await lists.get("a"), await lists.get("a", now() - POLLED), await lists.get("a", now())] == [1, 1, 2]
    await lists.close()
