"""The DynamoDB adapter: against real, unreachable and silent servers, and compared with the store in memory."""

import asyncio
import itertools
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import ClientTimeout
from botocore.credentials import Credentials
from clusterra_runtime.store import dynamodb_client
from clusterra_runtime.store.condition import Absent, Condition, Missing, Present, VersionIs, at_most, compare
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.dynamodb_wire import Wire
from clusterra_runtime.store.item import Item, Key, Value
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.page import Page
from clusterra_runtime.store.store import (
    Check,
    ConditionFailed,
    Delete,
    Index,
    Put,
    Store,
    StoreError,
    StoreUnavailable,
    Table,
    TransactionCancelled,
    Update,
    Write,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

JOBS = Table("jobs")
START = 1_800_000_000


class Loop:
    """Measures the longest time for which the event loop was blocked, in seconds."""

    def __init__(self) -> None:
        self.longest_turn_seconds = 0.0

    async def watch(self) -> None:
        while True:
            before = time.monotonic()
            try:
                await asyncio.sleep(0.005)
            finally:  # also if it is cancelled right after a long block
                self.longest_turn_seconds = max(self.longest_turn_seconds, time.monotonic() - before)


@pytest.fixture
async def dynamodb(aws: None) -> AsyncIterator[DynamoDBStore]:
    async with DynamoDBStore(table_prefix=f"{uuid.uuid4()}-") as store:
        await store.create_tables(JOBS)
        yield store


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(dynamodb_client, "READ_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(dynamodb_client, "CONNECT_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(dynamodb_client, "REQUEST_TIMEOUT_SECONDS", 3.0)
    monkeypatch.setattr(dynamodb_client, "ATTEMPTS", 2)


async def _serve(answer: bytes | None) -> tuple[asyncio.Server, str]:
    connections: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        try:
            while await reader.read(65536):
                if answer is not None:
                    writer.write(answer)
                    await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


BUSY = (
    b'{"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "slow down"}',
    b'{"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "sorry"}',
)


def _http(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _cut_off(server: asyncio.Server) -> None:
    server.close()
    if sys.version_info >= (3, 13):  # earlier ones only wait for the store to close its connections
        server.close_clients()


@pytest.mark.parametrize(
    "answer", [None, _http(400, BUSY[0]), _http(500, BUSY[1])], ids=["silent", "throttling", "broken"]
)
async def test_a_server_that_does_not_answer_properly_is_unavailable(
    quick: None, monkeypatch: pytest.MonkeyPatch, answer: bytes | None
) -> None:
    server, url = await _serve(answer)
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    async with server, DynamoDBStore() as store:
        with pytest.raises(StoreUnavailable):
            await store.get(JOBS, Key("p", "s"))
        with pytest.raises(StoreUnavailable):
            await store.write(Put(JOBS, Key("p", "s"), {}, Absent()))

        _cut_off(server)


async def test_a_server_that_reads_no_whole_body_is_unavailable(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb_client, "REQUEST_TIMEOUT_SECONDS", 0.5)
    puts = [Put(JOBS, Key("p", f"{n}"), {"text": "x" * 390 * 1024}, Absent()) for n in range(25)]
    with socket.socket() as server:
        # The kernel takes a part of the body, and nobody takes the rest.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        server.bind(("127.0.0.1", 0))
        server.listen()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")

        async with asyncio.timeout(90), DynamoDBStore() as store:
            with pytest.raises(StoreUnavailable):
                await store.put_all(puts)


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_requests_go_by_the_proxy_of_the_environment(
    quick: None, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    server, url = await _serve(_http(200, b'{"Item": {"pk": {"S": "p"}, "sk": {"S": "s"}, "version": {"N": "1"}}}'))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://dynamodb.invalid")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("HTTP_PROXY", scheme + url.removeprefix("http://"))
    monkeypatch.setenv("http_proxy", scheme + url.removeprefix("http://"))

    async with server, DynamoDBStore() as store:
        found = await store.get(JOBS, Key("p", "s"))
        _cut_off(server)

    assert found is not None


async def test_many_requests_at_once_read_the_credentials_once(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    server, url = await _serve(_http(200, b"{}"))
    reads = 0

    class Keychain:
        def get_frozen_credentials(self) -> Credentials:
            nonlocal reads
            reads += 1
            return Credentials("visible", "hidden", None)

    async with server:
        wire = Wire(url, "us-east-1", Keychain(), connections=4, attempts=1, timeout=ClientTimeout(total=10))
        await asyncio.gather(*(wire.call("get_item", {"Key": f"{n}"}) for n in range(20)))
        await wire.close()
        _cut_off(server)

    assert reads == 1


async def test_a_server_that_cannot_be_reached_is_unavailable(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    server, url = await _serve(None)
    server.close()
    await server.wait_closed()
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    async with DynamoDBStore() as store:
        with pytest.raises(StoreUnavailable, match="AWS_ENDPOINT_URL"):
            await store.get(JOBS, Key("p", "s"))


async def test_a_store_that_is_not_open_raises_a_store_error() -> None:
    with pytest.raises(StoreError, match="async with"):
        await DynamoDBStore().get(JOBS, Key("p", "s"))


async def test_hanging_requests_do_not_block_the_event_loop(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb_client, "READ_TIMEOUT_SECONDS", 1.0)
    server, url = await _serve(None)
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    loop = Loop()
    async with server, DynamoDBStore() as store:
        watch = asyncio.create_task(loop.watch())
        answers = await asyncio.gather(
            *(store.get(JOBS, Key("p", f"{n}")) for n in range(2 * dynamodb_client.CONNECTIONS)),
            return_exceptions=True,
        )
        watch.cancel()
        _cut_off(server)

    assert {type(answer) for answer in answers} == {StoreUnavailable}
    # If a request had run on the loop, it would have blocked the loop for the timeouts of all attempts.
    assert loop.longest_turn_seconds < 1.0 * dynamodb_client.ATTEMPTS


async def test_an_index_that_a_table_lacks_is_added(dynamodb: DynamoDBStore) -> None:
    by_state = Index("by-state", "state", "since")
    indexed = Table("jobs", (by_state,))
    await dynamodb.write(Put(JOBS, Key("p", "s"), {"state": "held", "since": "2026"}, Absent()))

    assert await dynamodb.missing_tables(JOBS, indexed) == (dynamodb.table_name(JOBS),)

    await dynamodb.create_tables(indexed)

    assert await dynamodb.missing_tables(indexed) == ()
    assert await dynamodb.query_index(indexed, by_state, "held") == [Key("p", "s")]


async def test_table_prefixes_separate_installations(dynamodb: DynamoDBStore) -> None:
    await dynamodb.write(Put(JOBS, Key("p", "s"), {"mine": True}, Absent()))
    async with DynamoDBStore(table_prefix=f"{uuid.uuid4()}-") as other:
        await other.create_tables(JOBS)
        assert await other.get(JOBS, Key("p", "s")) is None


NAMES = ("a", "b", "status")
SORT_KEYS = ("x#1", "x#2", "y")
numbers = st.one_of(
    st.integers(-(10**27), 10**27),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e20, max_value=1e20).filter(
        lambda value: value == 0 or abs(value) > 1e-100
    ),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | numbers | texts | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
    max_leaves=4,
)
small = st.integers(0, 4)
names = st.sampled_from((*NAMES, "count"))
conditions: st.SearchStrategy[Condition] = st.recursive(
    st.one_of(
        st.just(Absent()),
        st.just(Present()),
        st.builds(VersionIs, small),
        st.builds(Missing, names),
        st.builds(compare, names, st.sampled_from(["==", "!="]), values | small),
        st.builds(compare, names, st.sampled_from(["<", "<=", ">", ">="]), texts | numbers | small),
        st.builds(at_most, names, small),
    ),
    lambda inner: st.builds(lambda a, b: a & b, inner, inner) | st.builds(lambda a, b: a | b, inner, inner),
    max_leaves=4,
)
expiries = st.none() | st.integers(START - 1, START + 30)


@st.composite
def updates(draw: st.DrawFn, key: Key) -> Update:
    kinds = {name: draw(st.sampled_from(["set", "remove", "leave"])) for name in NAMES}
    # `add` and `append` use attributes of their own. On an attribute of another type they are an error, which may be
    # raised before or after that of a failed condition, and which the emulator does not raise for lists.
    return Update(
        JOBS,
        key,
        set={name: draw(values) for name in NAMES if kinds[name] == "set"},
        add={"count": draw(small)} if draw(st.booleans()) else {},
        append={"log": [draw(values)]} if draw(st.booleans()) else {},
        remove=tuple(name for name in NAMES if kinds[name] == "remove"),
        condition=draw(st.none() | conditions),
        expires_at=draw(expiries),
        keep_version=draw(st.booleans()),
    )


@st.composite
def writes(draw: st.DrawFn) -> Write:
    key = Key("-", draw(st.sampled_from(SORT_KEYS)))
    kind = draw(st.sampled_from(["put", "update", "delete", "check"]))
    if kind == "put":
        replaced: Condition = draw(st.one_of(st.just(Absent()), st.builds(VersionIs, small)))
        extra = draw(st.none() | conditions)
        return Put(
            JOBS,
            key,
            draw(st.dictionaries(st.sampled_from(NAMES), values | small, max_size=3)),
            replaced if extra is None else replaced & extra,
            draw(expiries),
        )
    if kind == "update":
        return draw(updates(key))
    if kind == "delete":
        return Delete(JOBS, key, draw(st.none() | conditions))
    return Check(JOBS, key, draw(conditions))


type Outcome = Item | Page | str | tuple[Item | str | None, ...] | None


async def _do(store: Store, step: Write | list[Write], token: str) -> Outcome:
    """The result of one step, as a caller sees it."""
    try:
        match step:
            case Put() | Update():
                return await store.write(step)
            case Delete():
                await store.delete(step)
                return None
            case Check():
                await store.transact([step], token=token)
                return None
            case _:
                await store.transact(step, token=token)
                return None
    except ConditionFailed as failed:
        return failed.current or "absent"
    except TransactionCancelled as cancelled:
        return tuple(None if one is None else one.current or "absent" for one in cancelled.reasons)
    except StoreError as error:
        return type(error).__name__


steps = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 10]),
        st.lists(writes(), min_size=1, max_size=3, unique_by=lambda write: write.key.sk),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
_runs = itertools.count()


@settings(suppress_health_check=list(HealthCheck))
@given(history=steps)
async def test_both_adapters_behave_identically(
    dynamodb: DynamoDBStore, history: list[tuple[int, list[Write], bool]]
) -> None:
    pk = f"run{next(_runs)}"
    now = START
    dynamodb._clock = lambda: now
    memory = MemoryStore(clock=lambda: now)
    await memory.create_tables(JOBS)
    for number, (seconds, drawn, together) in enumerate(history):
        now += seconds
        step = [replace(write, key=Key(pk, write.key.sk)) for write in drawn]
        for part in [step] if together else step:
            token = f"{pk}-{number}"
            assert await _do(memory, part, token) == await _do(dynamodb, part, token)
            assert await memory.query(JOBS, pk) == await dynamodb.query(JOBS, pk)
