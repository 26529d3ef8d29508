"""SCIM: the sequences of requests that Okta and Entra ID send, and what they mean for members."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from clusterra_contracts.events import AdminFact, Event
from clusterra_gateway.accounts.keyspace import ACCOUNTS, scim_resource_key
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.directory.scim import changes, protocol, provisioned
from clusterra_lab.machine.process import until
from clusterra_runtime.store.store import Update
from gateway_world import World, authorized
from people_world import TAKEN_SECONDS, change, me, owner, program, replica
from scim_world import (
    ENTERPRISE,
    ERROR,
    GROUP,
    LIST,
    POSIX_GROUP,
    POSIX_USER,
    USER,
    Directory,
    Json,
    directory_of,
    person,
    scim_key,
)
from sse_reader import sse_reader
from test_events import STREAM

ADA = "ada@acme.example"


@pytest.fixture
async def directory(world: World) -> AsyncIterator[Directory]:
    async with directory_of(world, await owner(world)) as directory:
        yield directory


def error(status: int, told: Json) -> tuple[int, str | None]:
    """The status of an error, and its keyword."""
    assert told["schemas"] == [ERROR], told
    assert told["status"] == str(status)
    assert told["detail"]
    return status, told.get("scimType")


async def signed_in(world: World, email: str) -> int:
    """The status of a sign-in and of a first request after it."""
    browser = await world.browser()
    async with browser.get(await authorized(browser, email), allow_redirects=False) as answer:
        if answer.status != 303:
            return answer.status
    async with browser.get("/v1/users/me") as answer:
        return answer.status


async def test_okta_lists_and_reads_a_user(directory: Directory) -> None:
    first = await directory.made("/Users", person(ADA, password="pick-me", groups=[], locale="en-US"))

    status, page = await directory.ask("GET", "/Users?count=1&startIndex=1")
    read = await directory.ask("GET", f"/Users/{first['id']}")

    assert (status, page["schemas"]) == (200, [LIST])
    assert [type(page[name]) for name in ("itemsPerPage", "startIndex", "totalResults")] == [int, int, int]
    (shown,) = page["Resources"]
    assert shown["id"] == first["id"]
    assert shown["name"] == {"givenName": "Ada", "familyName": "Example"}
    assert (shown["userName"], shown["active"], shown["emails"][0]["value"]) == (ADA, True, ADA)
    assert "password" not in str(page)
    assert read == (200, shown)


async def test_okta_finds_nothing_where_nothing_is(directory: Directory) -> None:
    found = await directory.found("/Users", 'userName eq "isaac.newton@acme.example"')
    status, told = await directory.ask("GET", "/Users/010101001010101011001010101011")
    groups_status, groups = await directory.ask("GET", "/Groups?count=100&startIndex=1")

    assert found == []
    assert error(status, told) == (404, None)
    assert (groups_status, groups["totalResults"]) == (200, 0)


async def test_okta_makes_a_user_once(directory: Directory) -> None:
    address = "isaac.newton@acme.example"

    made = await directory.made("/Users", person(address))
    read = await directory.ask("GET", f"/Users/{made['id']}")
    status, told = await directory.ask("POST", "/Users", person(address))

    assert made["schemas"] == [USER]
    assert read == (200, made)
    assert error(status, told) == (409, "uniqueness")


async def test_okta_changes_deactivates_and_activates_a_user(directory: Directory) -> None:
    made = await directory.made("/Users", person(ADA))
    path = f"/Users/{made['id']}"

    status, told = await directory.ask("PUT", path, person(ADA, id=made["id"], displayName="Ada L."))
    assert (status, told["displayName"]) == (200, "Ada L.")
    inactive = await directory.patched(path, {"op": "replace", "value": {"active": False}})
    again = await directory.patched(path, {"op": "replace", "value": {"active": True}})

    assert (inactive["active"], again["active"]) == (False, True)
    assert again["displayName"] == "Ada L."


async def test_okta_pushes_a_group(directory: Directory) -> None:
    users = [(await directory.made("/Users", person(f"{name}@acme.example")))["id"] for name in ("ada", "bob")]
    members = [{"value": each, "display": "x"} for each in users]
    made = await directory.made("/Groups", {"schemas": [GROUP], "displayName": "Chemistry", "members": members})
    path = f"/Groups/{made['id']}"

    renamed = await directory.patched(path, {"op": "replace", "value": {"id": made["id"], "displayName": "Chem"}})
    fewer = await directory.patched(path, {"op": "remove", "path": f'members[value eq "{users[0]}"]'})
    more = await directory.patched(path, {"op": "add", "path": "members", "value": [{"value": users[0]}]})
    replaced = await directory.patched(path, {"op": "replace", "path": "members", "value": [{"value": users[1]}]})

    assert [each["value"] for each in made["members"]] == users
    assert renamed["displayName"] == "Chem"
    assert [each["value"] for each in fewer["members"]] == [users[1]]
    assert {each["value"] for each in more["members"]} == set(users)
    assert [each["value"] for each in replaced["members"]] == [users[1]]
    assert await directory.ask("DELETE", path) == (204, {})
    assert (await directory.ask("GET", path))[0] == 404


async def test_the_requests_of_entra_id_about_a_user(directory: Directory) -> None:
    object_id = "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef"
    assert await directory.found("/Users", 'userName eq "b1d2ffa6-no-such-user"') == []
    made = await directory.made(
        "/Users",
        person(ADA, externalId=object_id, meta={"resourceType": "User"}, roles=[])
        | {"schemas": [USER, ENTERPRISE], ENTERPRISE: {"department": "R&D"}},
    )
    path = f"/Users/{made['id']}"

    assert [each["id"] for each in await directory.found("/Users", f'externalId eq "{object_id}"')] == [made["id"]]
    assert [each["id"] for each in await directory.found("/Users", f'userName eq "{ADA.upper()}"')] == [made["id"]]
    changed = await directory.patched(
        path,
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "countess@acme.example"},
        {"op": "Replace", "path": "name.familyName", "value": "Lovelace"},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Engines"},
        {"op": "Add", "path": 'phoneNumbers[type eq "work"].value', "value": "1"},
    )
    renamed = await directory.patched(
        path, {"op": "Replace", "value": {"displayName": "Ada", "name.givenName": "Augusta", "title": "Countess"}}
    )
    disabled = await directory.patched(path, {"op": "Replace", "path": "active", "value": "False"})

    assert (changed["emails"][0]["value"], changed["name"]["familyName"]) == ("countess@acme.example", "Lovelace")
    assert (renamed["displayName"], renamed["name"]["givenName"]) == ("Ada", "Augusta")
    assert disabled["active"] is False
    assert (await directory.found("/Users", f'userName eq "{ADA}"'))[0]["active"] is False
    assert await directory.ask("DELETE", path) == (204, {})
    assert await directory.found("/Users", f'externalId eq "{object_id}"') == []


async def test_the_requests_of_entra_id_about_a_group(directory: Directory) -> None:
    ada = (await directory.made("/Users", person(ADA)))["id"]
    made = await directory.made("/Groups", {"schemas": [GROUP], "externalId": "8aa1a0c0", "displayName": "HPC users"})
    path, members = f"/Groups/{made['id']}", 'displayName eq "hpc users"&excludedAttributes=members'

    await directory.patched(path, {"op": "Add", "path": "members", "value": [{"$ref": None, "value": ada}]})
    (without,) = await directory.found("/Groups", members)
    with_ada = await directory.found("/Groups", f'id eq "{made["id"]}" and members eq "{ada}"')
    await directory.patched(path, {"op": "Remove", "path": "members", "value": [{"$ref": None, "value": ada}]})
    left = await directory.found("/Groups", f'id eq "{made["id"]}" and members eq "{ada}"')
    renamed = await directory.patched(path, {"op": "Replace", "path": "displayName", "value": "Cluster users"})

    assert "members" not in without
    assert [each["members"][0]["value"] for each in with_ada] == [ada]
    assert left == []
    assert renamed["displayName"] == "Cluster users"
    assert await directory.found("/Groups", 'displayName eq "HPC users"') == []


async def test_a_deactivated_persons_sessions_and_tokens_end_on_every_replica(
    world: World, directory: Directory
) -> None:
    ada = await world.login(ADA)
    token = await program(ada)
    made = await directory.made("/Users", person(ADA))

    async with replica(world) as url:

        async def status() -> int:
            async with aiohttp.ClientSession(url, headers=token) as other, other.get("/v1/users/me") as answer:
                return answer.status

        assert await status() == 200
        await directory.patched(f"/Users/{made['id']}", {"op": "Replace", "path": "active", "value": "False"})

        async def gone() -> bool:
            return await status() == 401

        await until(gone, seconds=TAKEN_SECONDS, what="the other replica to know", every=0.05)
    async with ada.get("/v1/users/me") as answer:
        assert answer.status == 401
    assert await signed_in(world, ADA) == 401

    await directory.patched(f"/Users/{made['id']}", {"op": "Replace", "path": "active", "value": "True"})
    assert await signed_in(world, ADA) == 200


async def test_a_change_that_concerns_no_member_reads_none(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await directory.made("/Users", person("ada@acme.example", active=False))
    read = list[str]()

    async def nobody(_directory: object, tenant: str, *_wanted: object) -> tuple[Member, ...]:
        read.append(tenant)
        return ()

    monkeypatch.setattr("clusterra_gateway.directory.scim.users.people_with", nobody)
    await directory.patched(f"/Users/{made['id']}", {"op": "replace", "path": "displayName", "value": "Countess"})
    without_members = list(read)
    await directory.patched(f"/Users/{made['id']}", {"op": "replace", "path": "active", "value": True})

    assert (without_members, read) == ([], ["acme"])


async def test_who_is_deactivated_before_their_first_sign_in_does_not_join(world: World, directory: Directory) -> None:
    made = await directory.made("/Users", person(ADA, active=False))

    assert await signed_in(world, ADA) == 403
    await directory.patched(f"/Users/{made['id']}", {"op": "replace", "value": {"active": True}})
    assert await signed_in(world, ADA) == 200


async def test_a_deleted_user_stays_out_until_they_are_provisioned_again(world: World, directory: Directory) -> None:
    await world.login(ADA)
    ids = [(await directory.made("/Users", person(f"{name}@acme.example")))["id"] for name in ("ada", "never")]
    group = await directory.made("/Groups", {"displayName": "all", "members": [{"value": each} for each in ids]})

    assert [(await directory.ask("DELETE", f"/Users/{each}"))[0] for each in ids] == [204, 204]

    assert [await signed_in(world, f"{name}@acme.example") for name in ("ada", "never")] == [401, 403]
    assert "members" not in (await directory.ask("GET", f"/Groups/{group['id']}"))[1]
    await directory.made("/Users", person(ADA))
    assert await signed_in(world, ADA) == 200


async def test_a_person_with_a_new_address_is_still_found_by_the_one_they_signed_in_with(
    world: World, directory: Directory
) -> None:
    ada = await world.login(ADA)
    token = await program(ada)
    path = f"/Users/{(await directory.made('/Users', person(ADA)))['id']}"
    new = person("ada.king@acme.example")
    assert (await directory.ask("PUT", path, new))[0] == 200

    assert (await directory.ask("PUT", path, new | {"active": False}))[0] == 200

    async with aiohttp.ClientSession(world.url, headers=token) as other, other.get("/v1/users/me") as answer:
        assert answer.status == 401


async def test_the_last_owner_cannot_be_disabled_nor_deleted_by_a_directory(world: World) -> None:
    chief = await owner(world)
    async with directory_of(world, chief) as directory:
        boss = (await directory.made("/Users", person("boss@acme.example")))["id"]
        await directory.made("/Users", person(ADA))
        ada = await world.login(ADA)

        status, told = await directory.ask("DELETE", f"/Users/{boss}")
        assert error(status, told) == (409, None)
        assert "the last owner" in told["detail"]
        status, told = await directory.ask("PUT", f"/Users/{boss}", person("boss@acme.example", active=False))
        assert error(status, told) == (409, None)
        assert (await directory.ask("GET", f"/Users/{boss}"))[1]["active"] is True
        assert (await me(chief))["role"] == "owner"

        assert await change(chief, (await me(ada))["id"], role="owner") == 200
        assert (await directory.ask("DELETE", f"/Users/{boss}"))[0] == 204
    async with chief.get("/v1/users/me") as answer:
        assert answer.status == 401


async def test_an_admin_does_not_enable_whom_the_directory_has_deactivated(world: World) -> None:
    chief = await owner(world)
    ada = (await me(await world.login(ADA)))["id"]
    async with directory_of(world, chief) as directory:
        path = f"/Users/{(await directory.made('/Users', person(ADA, active=False)))['id']}"

        assert await change(chief, ada, disabled=False) == 409
        await directory.patched(path, {"op": "replace", "value": {"active": True}})
        assert await change(chief, ada, disabled=True) == 200
        await directory.ask("PUT", path, person(ADA, displayName="Ada"))

        # A change of something else does not undo what the admin did.
        assert await signed_in(world, ADA) == 401
        assert await change(chief, ada, disabled=False) == 200


async def test_only_addresses_in_the_tenants_domains_are_provisioned(world: World, directory: Directory) -> None:
    eve = await world.login("eve@rival.example")
    user = person("eve") | {"emails": [{"value": "eve@rival.example"}], "active": False}

    for name in ("eve@rival.example", "eve@nowhere.example", "eve"):
        assert error(*await directory.ask("POST", "/Users", user | {"userName": name})) == (400, "invalidValue")
    made = await directory.made("/Users", user | {"userName": ADA})
    assert made["emails"] == [{"value": "eve@rival.example"}]
    async with eve.get("/v1/users/me") as answer:
        assert answer.status == 200
    assert await signed_in(world, "eve@rival.example") == 200


async def test_an_address_belongs_to_one_user(directory: Directory) -> None:
    await directory.made("/Users", person(ADA))
    other = person("bob@acme.example") | {"emails": [{"value": ADA}]}

    status, told = await directory.ask("POST", "/Users", other)

    assert error(status, told) == (409, "uniqueness")
    assert "another user has the address" in told["detail"]


async def test_a_directory_reaches_nothing_of_another_tenant(world: World, directory: Directory) -> None:
    chief = await owner(world, "chief@rival.example")
    made = await directory.made("/Users", person(ADA))
    group = await directory.made("/Groups", {"displayName": "chem"})

    async with directory_of(world, chief, "rival") as rival:
        for base in (rival.base, directory.base):
            rival.base = base
            for path in (f"/Users/{made['id']}", f"/Groups/{group['id']}"):
                for method, content in (
                    ("GET", None),
                    ("PUT", person(ADA) if "Users" in path else {"displayName": "x"}),
                    ("PATCH", {"Operations": [{"op": "replace", "path": "displayName", "value": "x"}]}),
                    ("DELETE", None),
                ):
                    assert error(*await rival.ask(method, path, content)) == (404, None), (base, method, path)
        for path in (f'/Users?filter=id eq "{made["id"]}"', f'/Users?filter=userName eq "{ADA}"'):
            assert error(*await rival.ask("GET", path)) == (404, None)

    assert await directory.ask("GET", f"/Users/{made['id']}") == (200, made)


async def test_a_key_provisions_its_own_tenant_alone_and_does_nothing_else(world: World) -> None:
    chief = await owner(world)
    headers = {"Authorization": f"Bearer {await scim_key(chief)}"}
    async with aiohttp.ClientSession(world.url, headers=headers) as session:
        for path, status in (
            ("/v1/tenants/acme/scim/v2/Users", 200),
            ("/v1/tenants/rival/scim/v2/Users", 404),
            ("/v1/tenants/nobody/scim/v2/Users", 404),
            ("/v1/users/me", 403),
            ("/v1/members", 403),
            ("/v1/clusters", 403),
            ("/v1/tenants/acme", 403),
        ):
            async with session.get(path) as answer:
                assert answer.status == status, path


async def test_no_other_credential_provisions_people(world: World) -> None:
    chief = await owner(world)
    async with chief.post("/v1/service-accounts", json={"name": "robot", "role": "admin"}) as answer:
        assert answer.status == 201
    async with chief.post("/v1/service-accounts/robot/keys", json={"name": "all"}) as answer:
        of_a_robot = {"Authorization": f"Bearer {(await answer.json())['token']}"}

    for headers in (await program(chief), await program(chief, scopes=["scim"]), of_a_robot):
        async with (
            aiohttp.ClientSession(world.url, headers=headers) as session,
            session.get("/v1/tenants/acme/scim/v2/Users") as answer,
        ):
            assert answer.status == 403
    async with chief.get("/v1/tenants/acme/scim/v2/Users") as answer:
        assert error(answer.status, await answer.json(content_type=None)) == (403, None)


async def test_only_an_owner_makes_and_rotates_a_key_that_provisions_people(world: World) -> None:
    chief, ada = await owner(world), await world.login(ADA)
    await change(chief, (await me(ada))["id"], role="admin")
    await scim_key(chief)
    keys = "/v1/service-accounts/okta/keys"
    async with ada.get(keys) as answer:
        (known,) = (await answer.json())["keys"]

    statuses = {}
    for browser, name in ((ada, "admin"), (chief, "owner")):
        async with (
            browser.post(keys, json={"name": "another"}) as made,
            browser.post(f"{keys}/{known['id']}/rotate", json={}) as rotated,
        ):
            statuses[name] = made.status, rotated.status

    assert statuses == {"admin": (403, 403), "owner": (201, 201)}


async def test_a_key_that_provisions_people_does_nothing_else(world: World) -> None:
    chief, mixed = await owner(world), {"name": "mixed", "role": "admin"}
    async with chief.post("/v1/service-accounts", json=mixed) as answer:
        assert answer.status == 201, await answer.text()

    async with chief.post("/v1/service-accounts/mixed/keys", json=mixed | {"scopes": ["scim", "jobs:read"]}) as answer:
        status = answer.status

    assert status == 400


async def test_pages_and_attributes_of_lists(directory: Directory) -> None:
    ids = {(await directory.made("/Users", person(f"u{number}@acme.example")))["id"] for number in range(5)}

    pages = [(await directory.ask("GET", f"/Users?startIndex={start}&count=2"))[1] for start in (1, 3, 5, 7)]
    _, none = await directory.ask("GET", "/Users?count=0")
    _, negative = await directory.ask("GET", "/Users?startIndex=-3&count=-1")
    _, names = await directory.ask("GET", "/Users?attributes=userName&sortBy=userName")

    assert [len(page["Resources"]) for page in pages] == [2, 2, 1, 0]
    assert {each["id"] for page in pages for each in page["Resources"]} == ids
    assert {page["totalResults"] for page in (*pages, none, negative)} == {5}
    assert (negative["startIndex"], none["Resources"]) == (1, [])
    assert all(each.keys() == {"schemas", "id", "userName"} for each in names["Resources"])


SEARCHES = (
    'userName co "a"',
    "active eq true",
    'userName eq "a" or externalId eq "b"',
    'not (userName eq "a")',
    'emails.value eq "a@acme.example"',
    'userName eq "a',
    'displayName eq "Ada"',
    "((((",
)


async def test_a_filter_that_would_search_is_refused(directory: Directory) -> None:
    answers = {text: error(*await directory.ask("GET", f"/Users?filter={quote(text)}")) for text in SEARCHES}

    assert answers == dict.fromkeys(SEARCHES, (400, "invalidFilter"))


async def test_too_long_a_filter_and_an_unknown_query_are_refused(directory: Directory) -> None:
    for path in (f"/Users?filter={'x' * 1001}", "/Users?filtr=x", "/Users?count=many"):
        assert error(*await directory.ask("GET", path)) == (400, None)


WRONG_OPERATIONS: tuple[tuple[Json, str], ...] = (
    ({"op": "erase", "path": "displayName"}, "invalidValue"),
    ({"op": "remove"}, "noTarget"),
    ({"op": "remove", "path": "userName"}, "mutability"),
    ({"op": "replace", "path": "id", "value": "1"}, "mutability"),
    ({"op": "replace", "path": "active", "value": "perhaps"}, "invalidValue"),
    ({"op": "replace", "path": "emails[", "value": "x"}, "invalidPath"),
    ({"op": "replace", "path": f"emails[{'(' * 1001}", "value": "x"}, "invalidPath"),
    ({"op": "replace", "path": "userName", "value": "x" * 257}, "invalidValue"),
    ({"op": "add", "path": f"{POSIX_USER}:uidNumber", "value": 0}, "invalidValue"),
)


async def test_wrong_patches_change_nothing(directory: Directory) -> None:
    made = await directory.made("/Users", person(ADA))
    rename = {"op": "replace", "path": "displayName", "value": "changed"}

    for operation, keyword in WRONG_OPERATIONS:
        told = await directory.ask("PATCH", f"/Users/{made['id']}", {"Operations": [rename, operation]})
        assert error(*told) == (400, keyword), operation

    assert await directory.ask("GET", f"/Users/{made['id']}") == (200, made)


WRONG_BODIES: tuple[tuple[Any, int], ...] = (
    ([], 400),
    ({"userName": 5}, 400),
    ({}, 400),
    ({"userName": "x" * 70_000}, 413),
    ({"userName": ADA, "emails": [{"value": ADA}] * 9}, 400),
    ({"userName": ADA, "emails": [{"value": "a b@acme.example"}]}, 400),
    ({"userName": ADA, POSIX_USER: {"uid": "root user"}}, 400),
    ({"userName": ADA, "x": [1] * 1001}, 400),
)


async def test_wrong_bodies_are_refused(directory: Directory) -> None:
    made = await directory.made("/Users", person("bob@acme.example"))

    for body, status in WRONG_BODIES:
        for method, path in (("POST", "/Users"), ("PUT", f"/Users/{made['id']}")):
            assert error(*await directory.ask(method, path, body))[0] == status, body

    assert (await directory.ask("GET", "/Users"))[1]["Resources"] == [made]


async def test_unknown_members_and_too_many_operations_are_refused(directory: Directory) -> None:
    group = await directory.made("/Groups", {"displayName": "chem"})
    path = f"/Groups/{group['id']}"
    unknown = {"op": "add", "path": "members", "value": [{"value": "0" * 32}]}
    rename = {"op": "replace", "path": "displayName", "value": "x"}

    for operations in ([unknown], [rename] * 51):
        told = await directory.ask("PATCH", path, {"Operations": operations})
        assert error(*told) == (400, "invalidValue")
    told = await directory.ask("POST", "/Groups", {"displayName": "CHEM"})
    assert error(*told) == (409, "uniqueness")


async def test_a_change_for_another_version_is_refused(directory: Directory) -> None:
    made = await directory.made("/Users", person(ADA))
    path = f"/Users/{made['id']}"
    async with directory.session.get(f"{directory.base}{path}") as answer:
        assert answer.headers["ETag"] == made["meta"]["version"] == 'W/"1"'
    rename = {"Operations": [{"op": "replace", "path": "displayName", "value": "A"}]}

    first = await directory.ask("PATCH", path, rename, If_Match='W/"1"')
    second = await directory.ask("DELETE", path, If_Match='W/"1"')

    assert (first[0], first[1]["meta"]["version"]) == (200, 'W/"2"')
    assert error(*second) == (412, None)
    async with directory.session.get(f"{directory.base}{path}", headers={"If-None-Match": 'W/"2"'}) as answer:
        assert answer.status == 304


async def test_a_tenant_has_a_bounded_number_of_users(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(changes._MOST, "user", 1)
    made = await directory.made("/Users", person(ADA))

    assert error(*await directory.ask("POST", "/Users", person("bob@acme.example"))) == (409, None)
    assert (await directory.ask("DELETE", f"/Users/{made['id']}"))[0] == 204
    await directory.made("/Users", person("bob@acme.example"))


async def test_a_request_without_a_turn_is_refused(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.TURNS, "_most_waiting", -protocol.AT_ONCE)

    assert error(*await directory.ask("GET", "/Users")) == (429, None)


async def test_a_deleted_user_leaves_the_groups_of_all_pages(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provisioned, "GROUPS_PAGE", 1)
    monkeypatch.setattr(provisioned, "NAMES_PAGE", 1)
    ada, bob = [(await directory.made("/Users", person(f"{name}@acme.example")))["id"] for name in ("ada", "bob")]
    members = [[{"value": each}] for each in (ada, bob, ada)]
    for number, each in enumerate(members):
        await directory.made("/Groups", {"schemas": [GROUP], "displayName": f"g{number}", "members": each})

    assert (await directory.ask("DELETE", f"/Users/{ada}"))[0] == 204
    _, page = await directory.ask("GET", "/Groups")

    left = [[each["value"] for each in group.get("members", [])] for group in page["Resources"]]
    assert left == [[], [bob], []]


async def test_one_record_that_cannot_be_read_is_one_record(world: World, directory: Directory) -> None:
    ids = [(await directory.made("/Users", person(f"u{number}@acme.example")))["id"] for number in range(3)]
    keys = [scim_resource_key("acme", "user", each) for each in ids]
    await world.store.write(Update(ACCOUNTS, keys[0], set={"resource": {"userName": 5}}))
    await world.store.write(Update(ACCOUNTS, keys[1], set={"addresses": "none"}))

    _, page = await directory.ask("GET", "/Users")

    assert [each["id"] for each in page["Resources"]] == [ids[2]]
    for user_id in ids[:2]:
        for method in ("GET", "DELETE"):
            assert error(*await directory.ask(method, f"/Users/{user_id}")) == (502, None)
    assert (await directory.ask("DELETE", f"/Users/{ids[2]}"))[0] == 204


async def test_what_the_service_can_do_and_its_schemas(directory: Directory) -> None:
    _, config = await directory.ask("GET", "/ServiceProviderConfig")
    _, types = await directory.ask("GET", "/ResourceTypes")
    _, schemas = await directory.ask("GET", "/Schemas")

    assert (config["patch"], config["bulk"]["supported"], config["etag"]) == (
        {"supported": True},
        False,
        {"supported": True},
    )
    assert [each["endpoint"] for each in types["Resources"]] == ["/Users", "/Groups"]
    assert {each["id"] for each in schemas["Resources"]} == {USER, GROUP, POSIX_USER, POSIX_GROUP}
    for path in ("/ResourceTypes/User", f"/Schemas/{POSIX_USER}"):
        assert (await directory.ask("GET", path))[0] == 200
    for path in ("/ResourceTypes/Robot", f"/Schemas/{ENTERPRISE}"):
        assert error(*await directory.ask("GET", path)) == (404, None)


async def test_what_a_directory_does_is_told_in_events(world: World) -> None:
    chief = await owner(world)
    await world.login(ADA)

    async with directory_of(world, chief) as directory, sse_reader(chief, STREAM) as reader:
        made = await directory.made("/Users", person(ADA))
        group = await directory.made("/Groups", {"displayName": "Χημεία", "members": [{"value": made["id"]}]})
        assert (await directory.ask("DELETE", f"/Users/{made['id']}"))[0] == 204
        assert (await directory.ask("DELETE", f"/Groups/{group['id']}"))[0] == 204
        await until(lambda: "group_deleted" in reader.text, seconds=90, what="the last event")

    facts = [Event.model_validate_json(event.data).data for event in reader.events]
    told = [(fact.kind, fact.subject) for fact in facts if isinstance(fact, AdminFact) and fact.actor == "okta"]
    assert sorted(told) == [
        ("member.changed", "ada"),
        ("scim.group_changed", group["id"]),
        ("scim.group_created", group["id"]),
        ("scim.group_deleted", group["id"]),
        ("scim.user_created", made["id"]),
        ("scim.user_deleted", made["id"]),
    ]
