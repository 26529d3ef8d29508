"""Who gets mails: each person's own choices, and their present address, as the events service asks for them."""

from typing import Any

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import TenantRef
from clusterra_contracts.notifications import Choices
from clusterra_contracts.rpc.mails import ReadRecipients, Recipient, Recipients
from clusterra_gateway.accounts.keyspace import ACCOUNTS, member_key, notifications_key
from clusterra_runtime.nats.rpc import call
from clusterra_runtime.store.store import Update
from gateway_world import World
from people_world import change, me, owner, program

NOTIFICATIONS = "/v1/users/me/notifications"
NOTHING = {**dict.fromkeys(Choices.model_fields, False), "enabled": False}


async def recipients(world: World, **request: Any) -> tuple[Recipient, ...]:
    """What the gateway answers over the bus."""
    subject = subjects.mail_recipients(TenantRef(tenant="acme"))
    asked = ReadRecipients(**{"cluster": world.acme.ref.cluster, **request})
    return (await call(world.client, subject, asked, Recipients, timeout_seconds=30)).recipients


async def test_a_person_chooses_for_themselves_and_gets_nothing_by_default(world: World) -> None:
    ada, bob = [await world.login(f"{who}@acme.example") for who in ("ada", "bob")]

    async with ada.get(NOTIFICATIONS) as answer:
        assert await answer.json() == NOTHING | {"address": "ada@acme.example"}
    async with ada.put(NOTIFICATIONS, json={"jobs_failed": True, "budgets": True}) as answer:
        changed = await answer.json()
    async with ada.put(NOTIFICATIONS, json={"jobs_failed": True}) as answer:
        replaced = await answer.json()
    async with ada.get(NOTIFICATIONS) as answer:
        read = await answer.json()
    async with bob.get(NOTIFICATIONS) as answer:
        others = await answer.json()

    chosen = NOTHING | {"address": "ada@acme.example", "jobs_failed": True}
    assert (changed, replaced, read) == (chosen | {"budgets": True}, chosen, chosen)
    assert others == NOTHING | {"address": "bob@acme.example"}


@pytest.mark.parametrize("wrong", [{"jobs_failed": 1}, {"jobs_failed": "yes"}, {"address": "eve@else.example"}, []])
async def test_nothing_else_can_be_chosen_such_as_another_address(world: World, wrong: Any) -> None:
    ada = await world.login("ada@acme.example")

    async with ada.put(NOTIFICATIONS, json=wrong) as answer:
        assert answer.status == 400, await answer.text()


async def test_the_address_of_an_owner_is_the_one_of_now_until_they_are_disabled(world: World) -> None:
    boss, ada = await owner(world), await world.login("ada@acme.example")
    profile = await me(ada)
    wanted = {"user": profile["name"], "uid": profile["uid"]}
    async with ada.put(NOTIFICATIONS, json={"jobs_ended": True}) as answer:
        assert answer.status == 200

    (first,) = await recipients(world, **wanted)
    await world.store.write(Update(ACCOUNTS, member_key(profile["id"]), set={"email": "ada@new.example"}))
    (later,) = await recipients(world, **wanted)
    assert await change(boss, profile["id"], disabled=True) == 200
    disabled = await recipients(world, **wanted)

    assert first == Recipient(member=profile["id"], address="ada@acme.example", choices=Choices(jobs_ended=True))
    assert later.address == "ada@new.example"
    assert disabled == ()


async def test_a_name_with_the_uid_of_another_one_or_of_nobody_gets_no_mail(world: World) -> None:
    profile = await me(await world.login("ada@acme.example"))

    assert await recipients(world, user=profile["name"], uid=profile["uid"] + 1) == ()
    assert await recipients(world, user="nobody-there", uid=profile["uid"]) == ()
    assert await recipients(world, user=profile["name"], uid=profile["uid"], cluster="absent") == ()
    assert len(await recipients(world, user=profile["name"], uid=65534)) == 1


async def test_admins_hear_of_the_workspace_only_if_they_chose_it(world: World) -> None:
    boss, ada = await owner(world), await world.login("ada@acme.example")

    before = await recipients(world)
    for each in (boss, ada):
        async with each.put(NOTIFICATIONS, json={"budgets": True}) as answer:
            assert answer.status == 200

    assert before == ()
    assert [each.address for each in await recipients(world)] == ["boss@acme.example"]


async def test_choices_that_cannot_be_read_are_none(world: World) -> None:
    ada = await world.login("ada@acme.example")
    profile = await me(ada)
    await world.store.write(Update(ACCOUNTS, notifications_key(profile["id"]), set={"choices": "broken"}))

    async with ada.get(NOTIFICATIONS) as answer:
        assert (answer.status, await answer.json()) == (200, NOTHING | {"address": "ada@acme.example"})
    (found,) = await recipients(world, user=profile["name"], uid=profile["uid"])
    assert found.choices == Choices()


async def test_a_token_needs_the_scope_of_the_profile(world: World) -> None:
    ada = await world.login("ada@acme.example")
    nobody = await world.browser()

    for scope, status in (("profile", 200), ("jobs:read", 403)):
        async with nobody.get(NOTIFICATIONS, headers=await program(ada, name=scope, scopes=[scope])) as answer:
            assert answer.status == status, await answer.text()
    async with nobody.get(NOTIFICATIONS) as answer:
        assert answer.status == 401
