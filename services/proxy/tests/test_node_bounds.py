"""Jobs on very many nodes: a few bytes in a record of Slurm."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from clusterra_contracts.identity import now
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.body_reader import read
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.versions import VERSIONS, Version
from clusterra_proxy.watch import job_poll
from clusterra_proxy.watch.job_facts import PublishedJobEvents
from clusterra_proxy.watch.job_poll import JobPoll
from job_records import at, job

RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_jobs_on_too_many_nodes_are_bad_records_each(version: Version) -> None:
    recorded = json.loads((RECORDED / f"{version.name}.json").read_text())
    record = recorded["waiting_array"]["body"]["jobs"][0]
    nodes = ["n[1-100000]", "n[1-10000]"]
    content = {"jobs": [record | {"job_id": number, "nodes": named} for number, named in enumerate(nodes, start=100)]}

    parsed = read(version.jobs, json.dumps(content).encode())

    assert [(each.id, each.problems) for each in parsed.unreadable] == [("100", ("nodes: value_error",))]
    assert [(each.nodes, each.unreadable) for each in parsed.jobs] == [("", ("nodes",)), ("n[1-10000]", ())]


def wide_jobs(count: int) -> list[JobRecord]:
    return [job(number, "RUNNING", nodes="n[1-10000]", start=1) for number in range(1, count + 1)]


def test_the_nodes_of_all_records_are_bounded_and_those_beyond_counted() -> None:
    noted: list[str] = []
    table = JobTable(lambda kind, records: noted.extend(f"{kind} {each.id}: {each.problems[0]}" for each in records))

    table.replace(wide_jobs(52), at(0))
    assert noted == ["job 51: nodes: too_many_nodes", "job 52: nodes: too_many_nodes"]
    assert [record.host_count for record in table] == [10_000] * 50 + [0] * 2
    assert not list(table)[-1].holds_nodes

    # Two jobs have gone, so that there is room for the others, when they are read again.
    for seconds in (1, 2):
        table.replace(wide_jobs(52)[2:], at(seconds))
    assert table.unreadable == 0


def test_required_and_excluded_nodes_count_too() -> None:
    table = JobTable()
    table.replace(wide_jobs(49), at(0))

    table.put(job(50, required_nodes="n[1-5000]", excluded_nodes="m[1-5001]"), at(0))

    (record,) = table.job("50")
    assert record.unreadable == ("excluded_nodes", "required_nodes")
    assert (record.required_nodes, record.excluded_nodes) == ("", "")


def test_the_nodes_that_one_user_asks_for_take_none_from_the_records_of_others() -> None:
    table = JobTable()
    held = [job(number, user_id=1, excluded_nodes="n[1-10000]") for number in range(1, 101)]

    runs = job(200, "RUNNING", user_id=2, nodes="n[1-5000]", start=1)
    table.replace([*held, runs, job(201, user_id=2, required_nodes="n7")], at(0))
    table.put(job(202, user_id=1, required_nodes="n7", nodes="n7"), at(0))

    assert table.unreadable == len(held) - 37
    assert [record.unreadable for number in ("200", "201", "202") for record in table.job(number)] == [()] * 3


async def test_events_name_no_nodes_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_poll, "RETENTION", now() - at(-1))
    table, events = JobTable(), []

    async def jobs(_token: str, *, changed_after: int | None) -> Any:
        assert changed_after is None
        return now(), wide_jobs(60), 1, 0

    async def states(_token: str, *, many: bool) -> Any:
        assert not many
        return SimpleNamespace(jobs=(), unidentified=1)

    cluster = SimpleNamespace(
        jobs=table,
        ref=None,
        owner_name=lambda _record: "ada",
        mint=SimpleNamespace(operator_token=lambda: "token"),
        slurmctld=SimpleNamespace(jobs=jobs, states=states),
        jobs_polled=lambda _at: None,
    )
    queue = SimpleNamespace(accepts=True, put=lambda *put: events.extend(put))
    poll = JobPoll(cast(Any, cluster), cast(Any, queue))
    poll.spans = cast(Any, SimpleNamespace(add=lambda *_: None))
    poll.start_publishing(PublishedJobEvents())

    await poll.poll()

    assert len({event.fact.job_id for event in events}) == 60
    assert sum(len(event.fact.nodes) for event in events) == 500_000
