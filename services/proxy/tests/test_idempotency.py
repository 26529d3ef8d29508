import asyncio

import pytest
from clusterra_proxy.cluster.idempotency import MAX_KEYS, IdempotencyKeys, SubmittedJob
from clusterra_proxy.slurmrestd.comment import Comment
from job_records import at, job, task


async def test_submits_with_the_same_key_are_serialized() -> None:
    keys = IdempotencyKeys()
    submitted: list[int] = []

    async def submit(number: int) -> str:
        async with keys.lock(5001, "key-00001"):
            if (known := keys.find(5001, "key-00001")) is not None:
                return known.job_id
            await asyncio.sleep(0)
            submitted.append(number)
            keys.add(5001, "key-00001", SubmittedJob(str(number), at(0)))
            return str(number)

    assert len(set(await asyncio.gather(*(submit(number) for number in range(1, 20))))) == 1
    assert len(submitted) == 1


async def test_a_failed_submit_releases_its_key() -> None:
    keys = IdempotencyKeys()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            async with keys.lock(5001, "key-00001"):
                raise RuntimeError
    assert keys.find(5001, "key-00001") is None


def test_keys_are_learnt_from_comments_by_owner() -> None:
    keys = IdempotencyKeys()
    comment = str(Comment(user="alice", uid="5001", key="key-00001"))
    keys.learn([job(7, comment=comment), job(8, comment="other"), task(11, 10, 0, user_id=5002, comment=comment)])
    assert keys.find(5001, "key-00001") == SubmittedJob("7", at(0))
    # The same key of another user is a separate key, and an array's key names the whole array.
    assert keys.find(5002, "key-00001") == SubmittedJob("10", at(0))


def test_a_key_is_certain_once_its_job_is_found() -> None:
    keys = IdempotencyKeys()
    keys.mark_uncertain(5001, "key-00001")
    assert keys.is_uncertain(5001, "key-00001")
    keys.learn([job(7, comment=str(Comment(key="key-00001")))])
    assert not keys.is_uncertain(5001, "key-00001")


def test_the_oldest_key_is_dropped() -> None:
    keys = IdempotencyKeys()
    for number in range(MAX_KEYS + 1):
        keys.add(5001, f"key-{number:05}", SubmittedJob(str(number + 1), at(0)))
    assert keys.find(5001, "key-00000") is None
    assert keys.find(5001, f"key-{MAX_KEYS:05}") is not None
