"""How long values are kept, what an outage changes, and what a source's own answer changes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from clusterra_lab.machine.process import until
from clusterra_runtime.secrets import kubernetes, reader
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import KubernetesSecret, SecretUnavailable, SourceUnavailable

REFERENCE = "kubernetes:slurm/keys/jwt"


class Server:
    """Stands in for the API server, to count its requests and to choose its answers."""

    def __init__(self) -> None:
        self.requests = 0
        self.answer: Callable[[], bytes] = lambda: b"first"
        self.released = asyncio.Event()
        self.released.set()

    async def read(self, _secret: KubernetesSecret) -> bytes:
        self.requests += 1
        await self.released.wait()
        return self.answer()


def failing(error: Exception) -> Callable[[], bytes]:
    def answer() -> bytes:
        raise error

    return answer


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(kubernetes, "read", server.read)
    return server


@pytest.fixture
async def secrets() -> AsyncIterator[Secrets]:
    async with Secrets() as opened:
        yield opened


@pytest.fixture
async def eager() -> AsyncIterator[Secrets]:
    """Secrets that are current for no time at all."""
    async with Secrets(refresh_seconds=0, retry_seconds=0) as opened:
        yield opened


async def test_a_value_is_read_once_while_it_is_current(server: Server, secrets: Secrets) -> None:
    assert await secrets.read(REFERENCE) == b"first"
    assert await secrets.read(REFERENCE) == b"first"
    assert secrets.last(REFERENCE) == b"first"
    assert server.requests == 1


async def test_readers_at_the_same_time_share_one_request_that_a_cancelled_one_does_not_end(
    server: Server, secrets: Secrets
) -> None:
    server.released.clear()
    impatient = asyncio.create_task(secrets.read(REFERENCE))
    patient = asyncio.create_task(secrets.read(REFERENCE))
    await asyncio.sleep(0)

    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    server.released.set()

    assert await patient == b"first"
    assert server.requests == 1


async def test_a_replaced_secret_is_seen_at_the_next_refresh(server: Server, eager: Secrets) -> None:
    assert await eager.read(REFERENCE) == b"first"
    server.answer = lambda: b" second \n"

    assert await eager.read(REFERENCE) == b"second"
    assert await eager.read_binary(REFERENCE) == b" second \n"


async def test_the_last_value_stays_during_an_outage(server: Server, eager: Secrets) -> None:
    assert await eager.read(REFERENCE) == b"first"
    server.answer = failing(SourceUnavailable("away"))

    assert await eager.read(REFERENCE) == b"first"
    assert eager.last(REFERENCE) == b"first"

    server.answer = lambda: b"second"

    assert await eager.read(REFERENCE) == b"second"


async def test_a_deleted_secret_is_not_used_any_more_not_even_in_an_outage_after_it(
    server: Server, eager: Secrets
) -> None:
    assert await eager.read(REFERENCE) == b"first"
    server.answer = failing(SecretUnavailable("there is no such Secret"))
    with pytest.raises(SecretUnavailable, match="no such"):
        await eager.read(REFERENCE)
    server.answer = failing(SourceUnavailable("away"))
    with pytest.raises(SecretUnavailable, match="away"):
        await eager.read(REFERENCE)
    with pytest.raises(SecretUnavailable, match="away"):
        eager.last(REFERENCE)


async def test_a_failure_is_not_asked_again_at_once(server: Server, secrets: Secrets) -> None:
    server.answer = failing(SourceUnavailable("away"))
    for _ in range(3):
        with pytest.raises(SecretUnavailable, match="away"):
            await secrets.read(REFERENCE)
    assert server.requests == 1


async def test_before_the_first_read_there_is_no_last_value(server: Server, secrets: Secrets) -> None:
    with pytest.raises(SecretUnavailable, match="not been read yet"):
        secrets.last(REFERENCE)


async def test_a_followed_secret_stays_current(server: Server) -> None:
    async with Secrets(refresh_seconds=0.01) as secrets:
        following = asyncio.create_task(secrets.follow(REFERENCE))
        server.answer = lambda: b"second"
        await until(lambda: server.requests >= 3, seconds=90, what="two refreshes")

        assert secrets.last(REFERENCE) == b"second"
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_the_number_of_kept_values_is_bounded(
    server: Server, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_KEPT", 2)
    for name in ("a", "b", "c"):
        await secrets.read(f"kubernetes:slurm/{name}/jwt")

    await secrets.read("kubernetes:slurm/c/jwt")
    assert server.requests == 3

    await secrets.read("kubernetes:slurm/a/jwt")
    assert server.requests == 4


async def test_a_followed_value_is_kept_beyond_the_bound_and_until_nobody_follows_it(
    server: Server, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_KEPT", 2)
    references = [f"kubernetes:slurm/followed-{number}/jwt" for number in range(20)]
    server.released.clear()
    following = [asyncio.create_task(secrets.follow(reference)) for reference in references]
    await until(lambda: server.requests == 20, seconds=90, what="all requests")
    server.released.set()
    for number in range(5):
        await secrets.read(f"kubernetes:slurm/other-{number}/jwt")

    assert {secrets.last(reference) for reference in references} == {b"first"}
    assert not any(task.done() for task in following)

    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    for number in range(2):
        await secrets.read(f"kubernetes:slurm/other-{number}/jwt")

    assert len(secrets._kept) == 2


async def test_an_unexpected_error_is_an_outage_that_ends_no_follower_and_shows_no_value(
    server: Server, eager: Secrets
) -> None:
    assert await eager.read(REFERENCE) == b"first"
    server.answer = failing(ValueError("hunter2"))
    following = asyncio.create_task(eager.follow(REFERENCE))
    await until(lambda: server.requests >= 3, seconds=90, what="two failures")

    assert eager.last(REFERENCE) == b"first"
    assert not following.done()

    with pytest.raises(SecretUnavailable, match=r"unexpected ValueError$"):
        await eager.read("kubernetes:slurm/other/jwt")
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_the_pauses_after_failures_grow_up_to_the_time_between_refreshes(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("clusterra_runtime.secrets.reader.time.monotonic", lambda: now)
    server.answer = failing(SourceUnavailable("away"))
    async with Secrets() as secrets:
        pauses = []
        for _ in range(6):
            with pytest.raises(SecretUnavailable, match="away"):
                await secrets.read(REFERENCE)
            pauses.append(secrets._kept[REFERENCE].current_until - now)
            now = secrets._kept[REFERENCE].current_until

        assert pauses == [5, 10, 20, 40, 60, 60]

        server.answer = lambda: b"first"
        assert await secrets.read(REFERENCE) == b"first"
        assert secrets._kept[REFERENCE].failures == 0


async def test_a_file_is_always_the_present_one(secrets: Secrets, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"one\n")
    assert (await secrets.read(f"file:{key}"), secrets.last(f"file:{key}")) == (b"one", b"one")
    key.write_bytes(b"other\n")
    assert (await secrets.read(f"file:{key}"), secrets.last(f"file:{key}")) == (b"other", b"other")
    await secrets.follow(f"file:{key}")


@pytest.mark.parametrize("reference", ["kubernetes:slurm/jwt", "plain"])
async def test_a_malformed_reference_is_an_unavailable_secret(secrets: Secrets, reference: str) -> None:
    with pytest.raises(SecretUnavailable, match="kubernetes:<namespace>/<secret>/<key>"):
        await secrets.read(reference)
