"""The version check on a real server: who waits, who goes on, and what is no opinion."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.versions import Announcement, Contracts
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_runtime.nats import versions
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.versions import announced, announcements, software_version
from clusterra_runtime.service import Service
from clusterra_runtime.settings import ServiceSettings

from .conftest import connected

OLD = Contracts(generation=1, oldest=1)
NEXT = Contracts(generation=2, oldest=1)
LATER = Contracts(generation=3, oldest=2)
LIFE_SECONDS = 2


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(versions, "LIFE_SECONDS", LIFE_SECONDS)


@pytest.fixture
async def own_client(server: NatsServer) -> AsyncIterator[Client]:
    async with connected(server.settings()) as connection:
        yield connection


class Replica:
    """A replica of a service that only announces itself."""

    def __init__(self, client: Client, service: str, contracts: Contracts, instance: str) -> None:
        self.service = Service(
            service, ServiceSettings(instance=instance, software_version=f"{contracts.generation}.0")
        )
        self.working = asyncio.Event()
        self._client, self._contracts = client, contracts
        self._leave = asyncio.Event()
        self._task = asyncio.create_task(self._live())

    async def _live(self) -> None:
        try:
            async with announced(self.service, self._client, self._contracts):
                self.working.set()
                await self._leave.wait()
        finally:
            await self.service._cancel_background()

    @property
    def problem(self) -> str:
        return next((text for text in self.service.failing() if text.startswith("versions")), "")

    async def works(self) -> None:
        async with asyncio.timeout(90):
            await self.working.wait()

    async def stop(self) -> None:
        self._leave.set()
        await asyncio.wait_for(asyncio.gather(self._task, return_exceptions=True), 90)

    async def cancel(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def replica(client: Client, service: str, contracts: Contracts, instance: str = "1") -> AsyncIterator[Replica]:
    started = Replica(client, service, contracts, instance)
    try:
        yield started
    finally:
        await started.cancel()


async def test_services_of_neighbouring_generations_work_together(own_client: Client) -> None:
    async with replica(own_client, "proxy", OLD) as old, replica(own_client, "scaler", NEXT) as new:
        await old.works()
        await new.works()

        found, unreadable = await announcements(own_client)

        assert {(one.service, one.software, one.working) for one in found} == {
            ("proxy", "1.0", True),
            ("scaler", "2.0", True),
        }
        assert unreadable == []
        assert (old.problem, new.problem) == ("", "")


async def test_an_incompatible_newcomer_waits_and_says_for_whom_until_they_are_gone(own_client: Client) -> None:
    async with replica(own_client, "proxy", OLD, "a") as old:
        await old.works()
        async with replica(own_client, "scaler", LATER) as newcomer:
            await until(lambda: newcomer.problem, seconds=90, what="its problem")

            assert not newcomer.working.is_set()
            assert "contracts 2 to 3 of scaler 3.0" in newcomer.problem
            assert "proxy a (version 1.0, contracts 1)" in newcomer.problem
            assert "update them first" in newcomer.problem
            assert old.problem == ""

            await old.stop()
            await newcomer.works()
            assert newcomer.problem == ""


async def test_a_rollback_by_too_much_is_told_to_the_newcomer(own_client: Client) -> None:
    async with replica(own_client, "proxy", LATER) as new:
        await new.works()
        async with replica(own_client, "scaler", OLD) as old:
            await until(lambda: old.problem, seconds=90, what="its problem")

            assert "update this service to their release" in old.problem
            assert new.problem == ""


async def test_of_two_that_work_already_the_one_that_joined_later_is_not_ready(own_client: Client) -> None:
    async with replica(own_client, "proxy", OLD, "a") as old:
        await old.works()
        await own_client.jetstream().delete_stream("KV_versions")
        async with replica(own_client, "scaler", LATER, "b") as newcomer:
            await newcomer.works()

            assert newcomer.problem == ""

            js = own_client.jetstream()
            await js.add_stream(name="KV_versions", subjects=["$KV.versions.>"], allow_direct=True, allow_msg_ttl=True)
            replicas = (old, newcomer)
            await until(lambda: any(one.problem for one in replicas), seconds=90, what="a problem")
            (waiting,) = [one for one in replicas if one.problem]
            (going_on,) = [one for one in replicas if not one.problem]
            await going_on.stop()
            await until(lambda: waiting.problem == "", seconds=90, what="its recovery")


async def test_an_unreadable_announcement_and_one_without_an_end_hold_nobody_back(own_client: Client) -> None:
    js = own_client.jetstream()
    await js.publish("$KV.versions.proxy.bad", b'{"service": 7}')
    async with replica(own_client, "scaler", LATER) as newcomer:
        await newcomer.works()
        _, unreadable = await announcements(own_client)
        assert unreadable == ["proxy.bad"]


async def test_an_announcement_without_a_time_to_live_is_ignored_when_it_is_old(
    own_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Announcement(service="proxy", instance="left", software="0", contracts=OLD, working=True)
    body, headers = encode(left)
    await own_client.jetstream().publish("$KV.versions.proxy.left", body, headers=headers)
    monkeypatch.setattr(versions, "_DEAD_SECONDS", 0.5)
    async with replica(own_client, "scaler", LATER) as newcomer:
        await newcomer.works()


async def test_without_the_bucket_or_a_server_services_work(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with nats_server(tmp_path_factory.mktemp("bare")) as bare, connected(bare.settings()) as client:
        async with replica(client, "scaler", LATER) as one:
            await one.works()
        await bare.kill()
        async with replica(client, "scaler", LATER) as one:
            await one.works()
            assert one.problem == ""


async def test_a_killed_service_is_forgotten_when_its_announcement_ends(own_client: Client) -> None:
    async with replica(own_client, "proxy", OLD) as old:
        await old.works()
        await old.service._cancel_background()
        async with replica(own_client, "scaler", LATER) as newcomer:
            await newcomer.works()


async def test_a_newcomer_that_waits_does_not_begin_because_announcements_ended_in_an_outage(
    server: NatsServer,
) -> None:
    async with (
        connected(server.settings()) as slow,
        connected(server.settings()) as fast,
        replica(slow, "proxy", OLD) as old,
    ):
        await old.works()
        async with replica(fast, "scaler", LATER) as newcomer:
            await until(lambda: newcomer.problem, seconds=90, what="its problem")
            assert not newcomer.working.is_set()
            # The newcomer is the first to look after the outage.
            slow.options["reconnect_time_wait"] = 2.0
            fast.options["reconnect_time_wait"] = 0.01
            await server.kill()
            # The outage is as long as the life of an announcement.
            await asyncio.sleep(LIFE_SECONDS + 1)
            await server.restart()
            await slow.wait_connected(30)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(newcomer.working.wait(), LIFE_SECONDS + 1)
            assert "proxy 1 (version 1.0" in newcomer.problem
            assert old.problem == ""


async def test_a_service_announces_itself_as_soon_as_it_is_connected_again(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "RENEW_SECONDS", 600.0)
    async with connected(server.settings()) as client, replica(client, "proxy", OLD) as old:
        await old.works()
        await client.jetstream().purge_stream("KV_versions")
        await server.kill()
        await server.restart()

        async def announced_again() -> list[Announcement]:
            return (await announcements(client))[0]

        await client.wait_connected(30)
        (found,) = await until(announced_again, seconds=90, what="its announcement")
        assert found.working


async def test_a_service_that_waited_joins_after_those_that_began_to_work_meanwhile(own_client: Client) -> None:
    js = own_client.jetstream()
    body, headers = encode(Announcement(service="proxy", instance="old", software="1", contracts=OLD, working=True))
    await js.publish("$KV.versions.proxy.old", body, headers=headers)
    async with replica(own_client, "scaler", LATER) as waited:
        await until(lambda: waited.problem, seconds=90, what="its problem")
        async with replica(own_client, "gateway", NEXT) as meanwhile:
            await meanwhile.works()
            await js.purge_stream("KV_versions", subject="$KV.versions.proxy.old")
            await waited.works()

            joined = {one.service: one.joined for one in (await announcements(own_client))[0]}
            assert joined["gateway"] < joined["scaler"]


async def test_a_sequence_of_joining_above_the_announcements_own_is_not_believed(own_client: Client) -> None:
    late = Announcement(service="proxy", instance="1", software="1", contracts=OLD, working=True, joined=10**12)
    body, headers = encode(late)
    stored = await own_client.jetstream().publish(f"$KV.versions.{late.key}", body, headers=headers)

    (found,) = (await announcements(own_client))[0]

    assert found.joined == stored.seq


async def test_a_mistake_in_the_check_does_not_end_the_service(
    own_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replica(own_client, "proxy", OLD) as old:
        await old.works()
        failures = 0

        async def mistaken(_client: Client) -> None:
            nonlocal failures
            failures += 1
            raise KeyError("a mistake")

        monkeypatch.setattr(versions, "announcements", mistaken)
        await until(lambda: failures >= 2, seconds=90, what="two mistakes")

        assert not old.service._failed
        assert old.problem == ""


def test_the_software_version_is_the_given_one_or_the_packages() -> None:
    assert software_version("runtime", "1.2-g3d9ceee") == "1.2-g3d9ceee"
    assert software_version("runtime") == "0.1.0"
    assert software_version("nobody") == "unknown"
