"""An Idempotency-Key on everything that makes something: made once, answered again, and no secret kept."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from clusterra_contracts.rpc.reply import RpcError
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.errors import Conflict, InFlight, KeyReused, OutcomeUnknown
from clusterra_gateway.idempotency.key import REPLAYED
from clusterra_gateway.idempotency.once import IN_FLIGHT_SECONDS, KEPT_BYTES, AnswerOnce, ShownOnce
from clusterra_gateway.idempotency.table import IDEMPOTENCY
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.memory_store import MemoryStore
from gateway_world import World
from pydantic import BaseModel

KEY = {"Idempotency-Key": "5f0c7a52-once"}


class Wanted(BaseModel):
    name: str = "x"


class Thing(ResponseBody):
    number: int
    text: str = ""


class Secret(ShownOnce):
    token: str


class Maker:
    """Makes things, counts them, and fails as told."""

    def __init__(self) -> None:
        self.made = 0
        self.error: Exception | None = None
        self.text = ""

    async def thing(self) -> ResponseBody:
        self.made += 1
        if self.error is not None:
            raise self.error
        return Thing(number=self.made, text=self.text)


class Clock:
    at = 1_000_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(clock: Clock) -> MemoryStore:
    store = MemoryStore(clock=clock)
    await store.create_tables(IDEMPOTENCY)
    return store


@pytest.fixture
def once(store: MemoryStore, clock: Clock) -> AnswerOnce:
    return AnswerOnce(store, clock)


def request(path: str = "/v1/things") -> web.Request:
    return make_mocked_request("POST", path, headers=KEY)


async def test_a_request_with_a_key_is_carried_out_once(once: AnswerOnce) -> None:
    maker = Maker()

    first = await once.answer(request(), "acme#ada", Wanted(), maker.thing)
    again = await once.answer(request(), "acme#ada", Wanted(), maker.thing)

    assert maker.made == 1
    assert (first.status, again.status, first.body) == (201, 201, again.body)
    assert (REPLAYED in first.headers, again.headers[REPLAYED]) == (False, "true")


async def test_a_key_belongs_to_one_person_and_one_request(once: AnswerOnce) -> None:
    maker = Maker()
    await once.answer(request(), "acme#ada", Wanted(), maker.thing)

    await once.answer(request(), "acme#bob", Wanted(), maker.thing)
    for path, wanted in (("/v1/things", Wanted(name="y")), ("/v1/others", Wanted())):
        with pytest.raises(KeyReused):
            await once.answer(request(path), "acme#ada", wanted, maker.thing)

    assert maker.made == 2


async def test_a_key_in_flight_is_told_and_later_its_outcome_is_unknown(once: AnswerOnce, clock: Clock) -> None:
    maker = Maker()
    maker.error = RpcFailed(RpcError(kind="unavailable", detail="lost"))
    with pytest.raises(RpcFailed):
        await once.answer(request(), "acme#ada", Wanted(), maker.thing)

    with pytest.raises(InFlight) as told:
        await once.answer(request(), "acme#ada", Wanted(), maker.thing)
    clock.at += IN_FLIGHT_SECONDS
    with pytest.raises(OutcomeUnknown):
        await once.answer(request(), "acme#ada", Wanted(), maker.thing)

    assert told.value.retry_after_seconds == 1
    assert maker.made == 1


@pytest.mark.parametrize(
    "error", [Conflict("full"), RpcFailed(RpcError(kind="unavailable", detail="no", effect="none"))], ids=repr
)
async def test_a_request_that_failed_leaves_its_key_free(once: AnswerOnce, error: Exception) -> None:
    maker = Maker()
    maker.error = error
    with pytest.raises(type(error)):
        await once.answer(request(), "acme#ada", Wanted(), maker.thing)
    maker.error = None

    answer = await once.answer(request(), "acme#ada", Wanted(name="another"), maker.thing)

    assert answer.status == 201


async def test_of_an_answer_with_a_secret_only_the_id_is_kept(once: AnswerOnce, store: MemoryStore) -> None:
    async def make() -> ResponseBody:
        return Secret(id="0123456789abcdef", token="s3cr3t-s3cr3t")

    await once.answer(request(), "acme#ada", Wanted(), make)
    with pytest.raises(Conflict, match="0123456789abcdef") as refused:
        await once.answer(request(), "acme#ada", Wanted(), make)

    kept = repr(await store.get(IDEMPOTENCY, Key(f"acme#ada#{KEY['Idempotency-Key']}", "answer")))
    assert "0123456789abcdef" in kept
    assert "s3cr3t" not in kept + refused.value.detail + refused.value.hint


async def test_an_answer_that_is_too_long_is_not_kept(once: AnswerOnce) -> None:
    maker = Maker()
    maker.text = "x" * KEPT_BYTES
    await once.answer(request(), "acme#ada", Wanted(), maker.thing)

    with pytest.raises(Conflict, match="too long"):
        await once.answer(request(), "acme#ada", Wanted(), maker.thing)

    assert maker.made == 1


Path = Callable[[dict[str, Any]], str]
EVERYTHING: list[tuple[str, dict[str, Any], bool]] = [
    ("/v1/users/me/tokens", {"name": "ci"}, True),
    ("/v1/invitations", {"email": "new@elsewhere.example"}, True),
    ("/v1/service-accounts", {"name": "pipeline"}, False),
    ("/v1/service-accounts/robot/keys", {"name": "ci"}, True),
    ("/v1/clusters/main/jobs/cancel", {}, False),
]


@pytest.mark.parametrize(("path", "body", "secret"), EVERYTHING, ids=[path for path, _, _ in EVERYTHING])
async def test_each_route_that_makes_something_takes_a_key(
    world: World, path: str, body: dict[str, Any], secret: bool
) -> None:
    boss = await world.login("boss@acme.example")
    async with boss.post("/v1/service-accounts", json={"name": "robot"}) as answer:
        assert answer.status == 201, await answer.text()
    world.acme.add_job("1", user="boss", uid=0)

    answers = [await post(boss, path, body) for _ in range(2)]
    reused = await post(
        boss, path, {**body, "name": "other"} if "name" in body or not body else {**body, "role": "viewer"}
    )

    (first, first_body, replayed), (status, text, again_replayed) = answers
    assert first in (200, 201)
    assert replayed is None
    if secret:
        assert status == 409
        assert json.loads(first_body)["id"] in text
        assert json.loads(first_body)["token"] not in text
    else:
        assert (status, text, again_replayed) == (first, first_body, "true")
    assert reused[0] == 422, reused


async def test_many_that_are_sent_at_once_make_one(world: World) -> None:
    ada = await world.login("ada@acme.example")

    found = await asyncio.gather(*(post(ada, "/v1/users/me/tokens", {"name": "ci"}) for _ in range(10)))

    assert sorted(status for status, _, _ in found) == [201, *[409] * 9]
    async with ada.get("/v1/users/me/tokens") as answer:
        assert (await answer.json())["total"] == 1


async def post(browser: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> tuple[int, str, str | None]:
    async with browser.post(path, json=body, headers=KEY) as answer:
        return answer.status, await answer.text(), answer.headers.get(REPLAYED)


async def test_earlier_releases_find_the_attributes_that_they_read(once: AnswerOnce, store: MemoryStore) -> None:
    await once.answer(request(), "acme#ada", Wanted(), Maker().thing)

    item = await store.get(IDEMPOTENCY, Key("acme#ada#5f0c7a52-once", "answer"))

    assert item is not None
    assert item.attributes.keys() == {"request", "owner", "sent_at", "done", "answer"}
    assert item.attributes["done"] is True
