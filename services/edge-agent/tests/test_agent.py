"""The agent process, with a real NATS server and the agent's own permissions. `sleep` processes stand in for slurmd."""

import asyncio
import json
import random
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_process import REF
from clusterra_contracts.bus import subjects
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import rpc
from edge_process import Edge, running_edge

FAILS = ("sh", "-c", "exit 3", "sh")


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[Edge]:
    async with running_edge(tmp_path) as edge:
        yield edge


async def test_workers_match_the_desired_state_and_each_event_is_published_once(edge: Edge) -> None:
    await edge.start()
    up = await edge.desire(3)
    beat = await edge.applied(up)
    assert beat.workers is not None
    assert len(beat.workers) == 3
    names = {worker.name for worker in beat.workers}
    assert set(edge.records().values()) == names
    await edge.running_workers(3)
    assert edge.workers().keys() == edge.records().keys()

    victim = min(names)
    down = await edge.desire(2, victims=(victim,))
    await edge.applied(down)
    left = await edge.worker_count(2)
    assert {worker.name for worker in left.workers or ()} == names - {victim}
    await until(lambda: len(edge.records()) == 2, seconds=90, what="the victim's record to be deleted")
    assert edge.workers().keys() == edge.records().keys()
    assert sorted(await edge.events()) == sorted(
        [("worker.started", name) for name in names] + [("worker.stopped", victim)]
    )
    generations = [beat.generation for beat in edge.heartbeats]
    assert generations == sorted(set(generations))


async def test_only_victims_are_ever_removed(edge: Edge) -> None:
    await edge.start()
    await edge.applied(await edge.desire(3))
    for replicas in (0, None, 1):
        await edge.applied(await edge.desire(replicas, victims=("compute-xs-aaaaa", "general-xs-aaaaa")))
    await edge.running_workers(3)
    assert edge.workers().keys() == edge.records().keys()


async def test_older_states_are_ignored_even_after_a_restart(edge: Edge) -> None:
    agent = await edge.start()
    await edge.applied(await edge.desire(1, fence=7, generation=10))
    await edge.desire(5, fence=6, generation=11)
    await edge.desire(5, fence=7, generation=9)
    marker = await edge.desire(2, fence=7, generation=12)
    beat = await edge.applied(marker)

    assert len(beat.workers or ()) == 2

    agent.kill()
    await agent.wait()
    await edge.desire(5, fence=6, generation=99)
    agent = await edge.start()
    await until(
        lambda: "older_desired_state_ignored" in agent.tail(50),
        seconds=30,
        what="the older state to be ignored",
        process=agent,
    )
    await edge.heartbeat(lambda beat: beat.applied is None and len(beat.workers or ()) == 2)
    await edge.applied(await edge.desire(3, fence=8, generation=1))

    await edge.running_workers(3)


async def test_invalid_messages_become_dead_letters_and_change_nothing(edge: Edge) -> None:
    await edge.start()
    await edge.applied(await edge.desire(2))
    garbage = [
        b"",
        b"{",
        b"null",
        b'{"generation": 0}',
        b"\xff\xfe",
        b'{"targets": [{"shape": "../etc"}]}',
        b"[" * 5000,
    ]
    for body in garbage:
        await edge.centre.publish(subjects.scale_desired(REF), body)
    answer = await edge.centre.request(
        subjects.edge(REF, "log"), b'{"job_id": "../../etc/passwd", "uid": 0}', timeout=5
    )
    assert json.loads(answer.data)["error"]["kind"] == "invalid"

    async def all_stored() -> bool:
        return set(garbage) <= set(await edge.dead_letters())

    await until(all_stored, seconds=90, what="all invalid messages in the dead letters", process=edge.agent)
    await edge.running_workers(2)
    await edge.applied(await edge.desire(3))


async def test_workers_outlive_the_agent_and_the_next_one_adopts_them(edge: Edge) -> None:
    agent = await edge.start()
    state = await edge.desire(3)
    await edge.applied(state)
    before = set(await edge.running_workers(3))

    assert await agent.stop(grace_seconds=15) == 0
    assert set(edge.workers()) == before

    edge.heartbeats.clear()
    await edge.start()
    beat = await edge.applied(state)

    assert len(beat.workers or ()) == 3
    assert set(edge.workers()) == before == set(edge.records())


async def test_nothing_changes_without_nats_and_the_agent_catches_up_afterwards(edge: Edge) -> None:
    agent = await edge.start()
    await edge.applied(await edge.desire(3))
    before = await edge.running_workers(3)
    await edge.server.kill()
    await until(lambda: "nats_disconnected" in agent.tail(50), seconds=90, what="the loss of NATS", process=agent)
    victim = min(before)
    before[victim].kill()
    await until(lambda: "worker_ended" in agent.tail(50), seconds=90, what="the end to be observed", process=agent)

    assert set(edge.workers()) == set(before) - {victim}, "nothing is started while disconnected"

    await edge.server.restart()
    await edge.running_workers(3)
    await edge.applied(await edge.desire(4))
    kinds = [kind for kind, _ in await edge.events()]

    assert kinds.count("worker.failed") == 1


async def test_a_state_published_before_the_agent_started_is_applied(edge: Edge) -> None:
    state = await edge.desire(2)
    await edge.start()
    await edge.applied(state)
    await edge.running_workers(2)


async def test_a_crash_loop_backs_off_and_publishes_each_failure(edge: Edge) -> None:
    edge.launcher = FAILS
    await edge.start()
    started = time.monotonic()
    await edge.desire(1)

    async def three_failures() -> list[str] | None:
        failed = [name for kind, name in await edge.events() if kind == "worker.failed"]
        return failed if len(failed) >= 3 else None

    failed = await until(three_failures, seconds=90, what="three failures", process=edge.agent)
    assert len(failed) == len(set(failed)) == 3
    assert time.monotonic() - started >= 3, "1 s after the first, 2 s after the second"


async def test_job_output_is_served_and_followed(edge: Edge) -> None:
    await edge.start()
    await edge.applied(await edge.desire(0))
    output = edge.shared_dir / "job_42.out"
    output.write_bytes(b"first\n")
    uid = output.stat().st_uid
    log = subjects.edge(REF, "log")
    chunk = await rpc.call(edge.centre, log, ReadLog(job_id="42", uid=uid), LogChunk)

    assert (chunk.data, chunk.size) == (b"first\n", 6)

    following = asyncio.create_task(
        rpc.call(
            edge.centre, log, ReadLog(job_id="42", uid=uid, offset=6, wait_seconds=20), LogChunk, timeout_seconds=25
        )
    )
    with output.open("ab") as file:
        file.write(b"second\n")
    assert (await following).data == b"second\n"
    with pytest.raises(rpc.RpcFailed) as failed:
        await rpc.call(edge.centre, log, ReadLog(job_id="42", uid=uid + 1), LogChunk)
    assert failed.value.error.kind == "not_found"


async def test_shutdown_answers_waiting_readers_immediately(edge: Edge) -> None:
    agent = await edge.start()
    await edge.applied(await edge.desire(0))
    output = edge.shared_dir / "job_42.out"
    output.touch()
    request = ReadLog(job_id="42", uid=output.stat().st_uid, wait_seconds=30)
    log = subjects.edge(REF, "log")
    waiting = asyncio.create_task(rpc.call(edge.centre, log, request, LogChunk, timeout_seconds=40))

    await rpc.call(edge.centre, log, request.model_copy(update={"wait_seconds": 0.0}), LogChunk)

    assert await agent.stop(grace_seconds=10) == 0
    assert (await waiting).data == b""


async def test_a_killed_agent_leaves_no_orphan_and_starts_no_worker_twice(edge: Edge) -> None:
    chance = random.Random(20)
    replicas = 0
    for _ in range(4):
        edge.heartbeats.clear()
        agent = await edge.start()
        await edge.heartbeat(lambda beat: beat.workers is not None)
        replicas += chance.randint(1, 6)
        await edge.desire(replicas)
        # Somewhere between the arrival of the message and the start of the last worker, about 2 ms each.
        await asyncio.sleep(chance.uniform(0, 0.015))
        agent.kill()
        assert await agent.wait() == -signal.SIGKILL
    await edge.start()
    beat = await edge.applied(await edge.desire(replicas))
    assert {worker.name for worker in beat.workers or () if worker.phase != "failed"} <= set(edge.records().values())
    await until(
        lambda: len(edge.workers()) == len(edge.records()) == replicas,
        seconds=30,
        what="one process and one record per worker",
    )
    assert edge.workers().keys() == edge.records().keys()

    victims = tuple(sorted(edge.records().values()))
    await edge.applied(await edge.desire(0, victims=victims))
    await until(lambda: not edge.workers() and not edge.records(), seconds=90, what="no worker left")
    events = await edge.events()
    assert len(events) == len(set(events))
    assert {name for kind, name in events if kind == "worker.stopped"} == set(victims)
