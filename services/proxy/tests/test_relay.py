"""Lists that are passed on: whatever changes between two parts, each record that stays is in exactly one of them."""

import asyncio
import base64
import zlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.reply import Reply
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_rest import REST_PART_BYTES, RestPart
from clusterra_proxy.cluster import recent_list
from clusterra_proxy.cluster.recent_list import RecentList
from clusterra_proxy.requests.rest import parts
from clusterra_proxy.slurmrestd.bodies import SUBPROCESS_BYTES, BodyParser
from clusterra_proxy.slurmrestd.errors import Unavailable
from clusterra_proxy.slurmrestd.relay import blocks
from clusterra_proxy.slurmrestd.relay.lists import PackedJobs, PackedNodes
from hypothesis import given
from hypothesis import strategies as st

ALICE = SlurmUser(name="alice", uid=5001, gid=5001)

jobs = st.dictionaries(st.integers(1, 60), st.sampled_from([5001, 5002, 5003]), max_size=40)


def body(jobs: dict[int, int], filling: str = "") -> dict[str, Any]:
    """An answer of slurmrestd with these jobs and their owners."""
    records = [{"job_id": job_id, "user_id": uid, "name": filling} for job_id, uid in jobs.items()]
    last_update = {"set": True, "infinite": False, "number": 1}
    return {"jobs": records, "last_update": last_update, "errors": [], "warnings": [], "meta": {"slurm": {}}}


def ids_in(part: RestPart) -> list[int]:
    return [record["job_id"] for block in part.blocks for record in orjson.loads(b"[" + zlib.decompress(block) + b"]")]


@given(first=jobs, changed=jobs, admin=st.booleans(), block_bytes=st.integers(1, 400), part_bytes=st.integers(1, 400))
def test_parts_of_two_lists_have_each_job_of_both_once(
    first: dict[int, int], changed: dict[int, int], admin: bool, block_bytes: int, part_bytes: int
) -> None:
    second = first | {job_id: uid for job_id, uid in changed.items() if job_id not in first}
    viewer = Viewer(user=ALICE, admin=admin)
    seen: list[int] = []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", block_bytes)
        patch.setattr(parts, "REST_PART_BYTES", part_bytes)
        lists = [PackedJobs.model_validate(body(each)) for each in (first, second)]
        after, turn = None, 0
        while turn == 0 or after is not None:
            part = parts.part_of(lists[turn % 2], viewer, after)
            seen += ids_in(part)
            after, turn = part.after, turn + 1

    shown = {job_id for job_id, uid in second.items() if admin or uid == ALICE.uid}
    assert len(seen) == len(set(seen))
    assert set(seen) <= shown
    assert set(seen) >= shown & first.keys()


async def test_a_long_list_is_packed_in_a_subprocess_as_a_short_one_is_here() -> None:
    content = body({job_id: 5001 + job_id % 3 for job_id in range(1, 4000)}, "x" * 1000)
    text = orjson.dumps(content)
    assert len(text) > SUBPROCESS_BYTES

    async with BodyParser(PackedJobs) as parser:
        for begin in range(0, len(text), 100_000):
            await parser.feed(text[begin : begin + 100_000])
        packed = await parser.finish()

    assert packed == PackedJobs.model_validate(content)
    assert packed.content == {name: value for name, value in content.items() if name != "jobs"}
    assert (packed.last_update, sum(block.count for block in packed.blocks), packed.omitted) == (1, 3999, 0)


def test_a_part_fits_into_a_message_however_badly_it_compresses() -> None:
    generator = iter(range(10**9))
    names = (base64.b64encode(zlib.crc32(str(next(generator)).encode()).to_bytes(4)).decode() for _ in range(60_000))
    content = body({})
    content["jobs"] = [
        {"job_id": number, "user_id": 5001, "name": "".join(next(names) for _ in range(20))}
        for number in range(1, 3000)
    ]
    packed = PackedJobs.model_validate(content)

    part = parts.part_of(packed, Viewer(user=ALICE), None)

    assert part.after is not None
    assert sum(map(len, part.blocks)) <= REST_PART_BYTES
    message, _ = encode(Reply[RestPart](result=part))
    assert len(message) < 1024 * 1024


def test_records_without_an_identity_are_left_out_and_counted() -> None:
    content = body({1: 5001})
    content["jobs"] += [{"job_id": 2}, {"user_id": 5001}, "nonsense", {"job_id": None, "user_id": 5001}]

    part = parts.part_of(PackedJobs.model_validate(content), Viewer(user=ALICE), None)

    assert ids_in(part) == [1]
    assert "4 records are left out" in part.answer


def test_nodes_hide_other_peoples_jobs_from_all_but_admins() -> None:
    node = {"name": "w1", "extra": '{"u5002":1}', "owner": "bob", "reason": "clusterra:makes room for job 7"}
    packed = PackedNodes.model_validate({"nodes": [node], "errors": []})

    shown, whole = (parts.part_of(packed, Viewer(user=ALICE, admin=admin), None) for admin in (False, True))

    assert orjson.loads(zlib.decompress(shown.blocks[0])) == {
        "name": "w1",
        "extra": "",
        "owner": "",
        "reason": "clusterra:",
    }
    assert orjson.loads(zlib.decompress(whole.blocks[0])) == node


async def test_a_list_that_fails_fails_for_all_who_wait_and_is_read_again_afterwards() -> None:
    reads = 0

    async def read() -> Any:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        if reads == 1:
            raise Unavailable("slurmrestd does not respond")
        return now(), "the list"

    shared = RecentList(read, "")

    failed = await asyncio.gather(*(shared.get() for _ in range(50)), return_exceptions=True)

    assert {type(each) for each in failed} == {Unavailable}
    assert reads == 1
    assert set(await asyncio.gather(*(shared.get() for _ in range(50)))) == {"the list"}
    assert reads == 2
    await shared.close()


class Lists:
    """Lists by their numbers, each of which ends when the test lets it, and takes three seconds of a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = now()
        self.begun = 0
        self._may_end = asyncio.Semaphore(0)
        monkeypatch.setattr(recent_list, "now", lambda: self.at)

    async def read(self) -> tuple[datetime, int]:
        self.begun += 1
        number, began = self.begun, self.at
        await self._may_end.acquire()
        self.pass_by(3)
        return began, number

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    async def ended(self, shared: RecentList[int]) -> None:
        """Let the list that is being read end."""
        self._may_end.release()
        while shared.reading:  # noqa: ASYNC110 - turns of the loop pass, and no time
            await asyncio.sleep(0)


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Lists:
    return Lists(monkeypatch)


@pytest.fixture
async def shared(lists: Lists) -> AsyncIterator[RecentList[int]]:
    """A list that has just been read for the first time."""
    shared = RecentList(lists.read, 0)
    first = asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    await lists.ended(shared)
    assert await first == 1
    yield shared
    await shared.close()


async def test_the_list_before_is_told_while_the_next_one_is_read(lists: Lists, shared: RecentList[int]) -> None:
    lists.pass_by(3)

    meanwhile = [await shared.get() for _ in range(5)]
    await lists.ended(shared)

    assert meanwhile == [1] * 5
    assert await shared.get() == 2
    assert lists.begun == 2


async def test_the_list_before_is_not_told_for_longer_than_it_was_kept(lists: Lists, shared: RecentList[int]) -> None:
    lists.pass_by(6)

    waits = asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    await lists.ended(shared)

    assert await waits == 2


async def test_a_list_from_before_a_change_is_not_told(lists: Lists, shared: RecentList[int]) -> None:
    lists.pass_by(3)
    changed_at = lists.at

    waits = asyncio.create_task(shared.get(changed_at))
    await asyncio.sleep(0)
    await lists.ended(shared)

    assert await waits == 2
