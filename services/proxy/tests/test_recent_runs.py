"""All pages and readers of a list share one read of slurmdbd, and few queries prove the owners of its jobs."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm import CountJobs, ListJobs, Viewer
from clusterra_proxy.cluster import recent_jobs as recent_jobs_module
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.cluster.recent_jobs import RecentRuns, Submitted, recent_runs
from clusterra_proxy.cluster.recent_list import RecentList
from clusterra_proxy.cluster.recent_lists import RecentLists
from clusterra_proxy.requests.query import count_jobs, list_jobs
from clusterra_proxy.slurmrestd import accounting as accounting_module
from clusterra_proxy.slurmrestd.accounting import OLDEST, Accounting
from clusterra_proxy.slurmrestd.accounting_records import AccountingJob
from clusterra_proxy.slurmrestd.errors import Unavailable
from clusterra_proxy.slurmrestd.notation.comment import Comment
from clusterra_proxy.slurmrestd.reading.fields import LATEST
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.versions import V45
from hypothesis import given
from hypothesis import strategies as st
from job_records import BEGIN

ADA = Viewer(user=SlurmUser(name="ada", uid=5001, gid=5001))


def run(number: int, uid: int, noted: int | None = None, name: str = "") -> tuple[int, AccountingJob]:
    """A run of slurmdbd with its true owner, who may note another one, or None, in its comment."""
    comment = "" if noted is None else str(Comment(uid=str(noted)))
    fields = {
        "job_id": number,
        "user": name or f"user{uid}",
        "comment": {"job": comment},
        "state": {"current": ["COMPLETED"]},
        "time": {"submission": int(BEGIN.timestamp()) + number},
    }
    return uid, AccountingJob.model_validate(fields)


class PlayedSlurmdbd:
    """Answers queries for the runs of all users, or of one. It notes for whom it was asked."""

    def __init__(self, *runs: tuple[int, AccountingJob]) -> None:
        self.runs = list(runs)
        self.asked: list[str | None] = []

    async def read_list(self, _path: str, _token: str, _model: object, *, entity: str, query: dict[str, str]) -> Any:
        assert entity == "job"
        users = query.get("users")
        self.asked.append(users)
        await asyncio.sleep(0)
        return SimpleNamespace(jobs=[each for uid, each in self.runs if users in (None, str(uid))])

    def accounting(self) -> Accounting:
        async def version(_token: str) -> Any:
            return V45

        return Accounting(cast("Any", self), version)


class PlayedCluster(SimpleNamespace):
    """A cluster whose slurmctld has no jobs."""

    def __init__(self, runs: RecentRuns) -> None:
        names = SimpleNamespace(learn_viewer=lambda _viewer: None)
        recent = SimpleNamespace(jobs=self, runs=runs)
        super().__init__(mint=SimpleNamespace(names=names), jobs_listable=True, jobs=JobTable(), recent=recent)
        self.changed_at = None

    async def get(self, _changed_at: datetime | None) -> tuple[JobRecord, ...]:
        """slurmctld's list while the cluster is not watched."""
        return tuple(self.jobs)

    async def wait_for_own_changes(self) -> None:
        """There are none."""

    async def wait_for_poll(self, _at: datetime) -> bool:
        return True

    def owner_name(self, record: JobRecord) -> str:
        return record.user_name


@pytest.fixture
def slurmdbd() -> PlayedSlurmdbd:
    return PlayedSlurmdbd(*(run(number, 5001 + number % 2, 5001 + number % 2) for number in range(1, 101)))


@pytest.fixture
async def cluster(slurmdbd: PlayedSlurmdbd) -> AsyncIterator[Any]:
    runs = recent_runs(slurmdbd.accounting(), lambda: "token")
    yield PlayedCluster(runs)
    await runs.close()


async def test_ten_pages_and_their_count_read_accounting_once(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    asked = ListJobs(viewer=ADA, submitted_after=BEGIN, limit=5)
    found: list[str] = []
    pages = 0
    while pages == 0 or asked.cursor is not None:
        page = await list_jobs(cluster, asked)
        found += [each.job_id for each in page.jobs]
        asked = asked.model_copy(update={"cursor": page.cursor})
        pages += 1
    counts = await count_jobs(cluster, CountJobs(request=ListJobs(viewer=ADA, submitted_after=BEGIN)))

    assert (pages, len(found), len(set(found)), counts.total) == (10, 50, 50, 50)
    assert slurmdbd.asked == ["5001"]


async def test_readers_at_the_same_time_share_one_read(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    asked = ListJobs(viewer=Viewer(user=ADA.user, admin=True), submitted_after=BEGIN)

    pages = await asyncio.gather(*(list_jobs(cluster, asked) for _ in range(20)))

    assert {page.total for page in pages} == {100}
    assert sorted(slurmdbd.asked, key=str) == ["5001", "5002", None], "owners are proven once for all"


async def test_another_time_or_user_is_another_list(slurmdbd: PlayedSlurmdbd, cluster: Any) -> None:
    later = timedelta(hours=1)
    bob = Viewer(user=SlurmUser(name="bob", uid=5002, gid=5002))
    for viewer, filters in (
        (ADA, {"submitted_after": BEGIN}),
        (bob, {"submitted_after": BEGIN}),
        (ADA, {"submitted_after": BEGIN + later}),
        (ADA, {"submitted_after": BEGIN, "submitted_before": BEGIN + later}),
        (ADA, {"submitted_before": BEGIN + later}),
    ):
        page = await list_jobs(cluster, ListJobs(viewer=viewer, limit=1000, **filters))
        assert {each.uid for each in page.jobs} <= {viewer.user.uid}

    assert slurmdbd.asked == ["5001", "5002", "5001", "5001", "5001"]


async def test_times_within_an_hour_share_a_list_and_are_filtered_exactly(
    slurmdbd: PlayedSlurmdbd, cluster: Any
) -> None:
    totals = []
    for seconds in (0, 50, 99):
        after = BEGIN + timedelta(seconds=seconds)
        page = await list_jobs(cluster, ListJobs(viewer=Viewer(user=ADA.user, admin=True), submitted_after=after))
        totals.append(page.total)

    assert totals == [100, 51, 2]
    assert slurmdbd.asked.count(None) == 1


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_jobs_module, "MAX_RUNS", 250)
    monkeypatch.setattr(recent_jobs_module, "MAX_RUN_LISTS", 5)
    slurmdbd = PlayedSlurmdbd(*(run(number, 5001) for number in range(1, 101)))
    runs = recent_runs(slurmdbd.accounting(), lambda: "token")
    keys = [Submitted(hour * 3600, None, 5001) for hour in range(9)]

    for key in keys:
        assert len(await runs.get(key)) == 100
        assert runs.records <= 250
    for key in keys[-2:]:
        await runs.get(key)
    assert len(slurmdbd.asked) == len(keys), "the last two are kept"
    await runs.get(keys[0])
    assert len(slurmdbd.asked) == len(keys) + 1

    slurmdbd.runs = [run(number, 5001) for number in range(1, 400)]
    large = Submitted(99, None, 5001)
    assert [len(await runs.get(large)) for _ in range(3)] == [399] * 3
    assert (runs.records, len(slurmdbd.asked)) == (399, len(keys) + 2)
    await runs.close()


async def test_no_list_that_is_being_read_is_given_up_for_another() -> None:
    may_end = asyncio.Event()

    async def read(key: int) -> tuple[datetime, int]:
        await may_end.wait()
        return datetime.now(UTC), key

    lists = RecentLists(read, 0, most=2)
    waiting = [asyncio.create_task(lists.get(key)) for key in (1, 2)]
    await asyncio.sleep(0)

    with pytest.raises(Unavailable):
        await lists.get(3)
    may_end.set()

    assert await asyncio.gather(*waiting) == [1, 2]
    assert await lists.get(3) == 3
    await lists.close()


@pytest.mark.parametrize("abandons", [True, False])
async def test_a_read_that_nobody_waits_for_is_abandoned_if_so_told(abandons: bool) -> None:
    may_end, reads, ended = asyncio.Event(), 0, 0

    async def read(_key: int) -> tuple[datetime, int]:
        nonlocal reads, ended
        reads += 1
        await may_end.wait()
        ended += 1
        return datetime.now(UTC), reads

    lists = RecentLists(read, 0, most=2, abandons=abandons)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.gather(lists.get(1), lists.get(1)), 0.01)
    may_end.set()

    assert await lists.get(1) == (4 if abandons else 1)
    assert (reads, ended) == ((4, 1) if abandons else (1, 1))
    await lists.close()


async def test_a_list_is_forgotten() -> None:
    reads = 0

    async def read() -> tuple[datetime, int]:
        nonlocal reads
        reads += 1
        return datetime.now(UTC), reads

    recent = RecentList(read, 0)
    assert (await recent.get(), recent.kept) == (1, 1)
    recent.forget()
    assert recent.kept == 0
    assert await recent.get() == 2
    await recent.close()


def owners(found: tuple[JobRecord, ...]) -> dict[int, int | None]:
    return {each.job_id: each.user_id for each in found}


@given(st.none() | st.datetimes(timezones=st.just(UTC)), st.none() | st.datetimes(timezones=st.just(UTC)))
def test_times_of_a_request_are_whole_hours_of_the_calendar(after: datetime | None, before: datetime | None) -> None:
    asked = Submitted.between(after, before, 5001)

    first = datetime.fromtimestamp(asked.after, UTC)
    assert first <= min(max(after or OLDEST, OLDEST), LATEST)
    if asked.before is None:
        assert before is None or before >= LATEST
    else:
        assert before is not None
        assert datetime.fromtimestamp(asked.before, UTC) > before
    assert asked.after % 3600 == 0


async def test_owners_are_proven_once() -> None:
    slurmdbd = PlayedSlurmdbd(run(1, 5001, 5001), run(2, 5001), run(3, 5002, 5001), run(4, 5003))
    accounting = slurmdbd.accounting()

    for _ in range(3):
        found = await accounting.submitted("token", after=BEGIN)
        assert owners(found) == {1: 5001, 2: 5001, 3: None, 4: None}
    assert slurmdbd.asked == [None, "5001", None, None]

    slurmdbd.runs.append(run(5, 5001))
    slurmdbd.runs.append(run(6, 5002, 5002))
    found = await accounting.submitted("token", after=BEGIN)
    assert owners(found)[5] == 5001, "as the others of the same name"
    assert owners(found)[6] == 5002
    assert sorted(slurmdbd.asked[4:], key=str) == ["5001", "5002", None]


async def test_forged_comments_provoke_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting_module, "MAX_NOTED_UIDS", 50)
    forged = [run(number, 5001, 6000 + number) for number in range(1, 201)]
    slurmdbd = PlayedSlurmdbd(*forged, run(900, 5002, 5002), run(901, 5002, 5002))
    accounting = slurmdbd.accounting()

    asked: list[int] = []
    for _ in range(6):
        before = len(slurmdbd.asked)
        assert owners(await accounting.submitted("token", after=BEGIN))[900] == 5002
        asked.append(len(slurmdbd.asked) - before - 1)

    assert asked == [50, 50, 50, 50, 1, 0]


async def test_proofs_are_bounded_and_age(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(at=0.0)
    monkeypatch.setattr("clusterra_runtime.bounded_cache.time", SimpleNamespace(monotonic=lambda: clock.at))
    monkeypatch.setattr(accounting_module, "MAX_OWNERS", 3)
    slurmdbd = PlayedSlurmdbd(*(run(number, 5001, 5001) for number in (1, 2, 3)))
    accounting = slurmdbd.accounting()
    for _ in range(2):
        await accounting.submitted("token", after=BEGIN)
    assert slurmdbd.asked.count("5001") == 1

    clock.at += accounting_module.OWNER_SECONDS + 1
    await accounting.submitted("token", after=BEGIN)
    assert slurmdbd.asked.count("5001") == 2

    slurmdbd.runs += [run(number, 5001, 5001) for number in (4, 5)]
    await accounting.submitted("token", after=BEGIN)
    assert len(accounting._owners) == 3
