"""Files in a real bucket: uploads and downloads by presigned URLs, lists, deletes, copies, and who may do what."""

import asyncio
import random
from urllib.parse import parse_qs, urlsplit

import pytest
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.events import Event, FileFact
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.visibility import may_see
from clusterra_gateway.events.audit import entry_of
from clusterra_lab.machine.process import until
from files_world import BUCKET, FILES, PRESIGN, UPLOADS, FilesClient, FilesWorld, sha256, sha256_base64
from nats.aio.msg import Msg
from path_tricks import MALFORMED, OUTSIDE
from people_world import change, me, owner
from yarl import URL

CONTENT = b"a,b\n1,2\n"


async def member_id(person: FilesClient) -> str:
    found: str = (await me(person.browser))["id"]
    return found


async def test_a_file_is_uploaded_and_downloaded_without_passing_the_gateway(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")

    signed = await ada.presign("data/run 1/Müller.csv", CONTENT)
    assert await ada.send(signed.body, CONTENT) == 200

    assert signed.body["path"] == "data/run 1/Müller.csv"
    assert signed.body["method"] == "PUT"
    assert signed.body["headers"] == {
        "Content-Length": str(len(CONTENT)),
        "x-amz-checksum-sha256": sha256_base64(CONTENT),
    }
    assert signed.body["url"].startswith(files.aws.endpoint_url)
    assert await ada.get("data/run 1/Müller.csv") == CONTENT
    assert files.stored() == {f"acme/main/users/{await member_id(ada)}/data/run 1/Müller.csv"}


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        (CONTENT + b"more", {}),
        (CONTENT[:-1], {}),
        (b"x" * len(CONTENT), {}),
        (b"x" * len(CONTENT), {"x-amz-checksum-sha256": sha256_base64(b"x" * len(CONTENT))}),
        (CONTENT, {"x-amz-checksum-sha256": None}),
    ],
    ids=["longer", "shorter", "other bytes", "other bytes with their checksum", "no checksum"],
)
async def test_the_bucket_takes_no_other_bytes_than_those_that_were_signed(
    files: FilesWorld, sent: bytes, changed: dict[str, str | None]
) -> None:
    ada = await files.person("ada@acme.example")
    signed = (await ada.presign("data/x", CONTENT)).body
    headers = {**signed["headers"], "Content-Length": str(len(sent)), **changed}
    signed["headers"] = {name: value for name, value in headers.items() if value is not None}

    status = await ada.send(signed, sent)

    assert status in {400, 403}
    assert files.stored() == set()


async def test_a_url_is_bound_to_its_key_its_method_and_its_time(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    put = (await ada.presign("data/x", CONTENT)).body
    short = (await ada.presign("data/x", CONTENT, expires_in_seconds=1)).body

    other_key = put | {"url": put["url"].replace("/data/x?", "/data/y?")}
    longer = short | {"url": short["url"].replace("X-Amz-Expires=1&", "X-Amz-Expires=900&")}
    assert await ada.send(other_key, CONTENT) == 403
    assert await ada.send(longer, CONTENT) == 403
    async with ada.http.get(URL(put["url"], encoded=True)) as answer:
        assert answer.status == 403

    async def refused() -> bool:
        return await ada.send(short, CONTENT) == 403

    await until(refused, seconds=90, what="the URL to end")


async def test_lifetimes_have_a_default_and_a_bound(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")

    usual, hour, more = [await ada.presign("data/x", expires_in_seconds=each) for each in (None, 3600, 3601)]

    def seconds(url: str) -> list[str]:
        return parse_qs(urlsplit(url).query)["X-Amz-Expires"]

    assert seconds(usual.body["url"]) in (["900"], ["899"])
    assert seconds(hour.body["url"]) in (["3600"], ["3599"])
    assert more.status == 400
    assert "3600" in more.body["detail"]


async def test_a_download_is_saved_under_its_name_and_never_shown_as_a_page(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    name = "outputs/<script> \"x\"; 'é'.html"
    assert await ada.put(name, CONTENT) == 200
    signed = await ada.presign(name)

    async with ada.http.get(URL(signed.body["url"], encoded=True)) as answer:
        disposition = answer.headers["Content-Disposition"]

    assert disposition == "attachment; filename*=UTF-8''%3Cscript%3E%20%22x%22%3B%20%27%C3%A9%27.html"


@pytest.mark.parametrize(
    "wanted",
    [
        {"path": "data/x"},
        {"path": "data/x", "size": 8},
        {"path": "data/x", "sha256": sha256(CONTENT)},
        {"path": "data/x", "size": -1, "sha256": sha256(CONTENT)},
        {"path": "data/x", "size": 5 * 1024**3 + 1, "sha256": sha256(CONTENT)},
        {"path": "data/x", "size": True, "sha256": sha256(CONTENT)},
        {"path": "data/x", "size": 8, "sha256": "0" * 63},
        {"path": "data/x", "size": 8, "sha256": "é" * 44},
        {"path": "data/x", "size": 8, "sha256": sha256(CONTENT), "method": "DELETE"},
        {"path": "data/x", "method": "GET", "size": 8},
        {"path": "data/x", "method": "GET", "expires_in_seconds": 0},
        {"path": "data", "method": "GET"},
        {"path": "data/x", "size": 8, "sha256": sha256(CONTENT), "key": "y"},
    ],
)
async def test_a_malformed_request_for_a_url_is_refused(files: FilesWorld, wanted: dict[str, object]) -> None:
    ada = await files.person("ada@acme.example")

    answer = await ada.call("POST", PRESIGN, json=wanted)

    assert answer.status == 400
    assert answer.body["detail"]


async def test_a_folder_is_listed_page_by_page(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    for name in ("data/a", "data/b", "data/run 1/c", "data/run 1/deep/d", "outputs/e"):
        assert await ada.put(name, CONTENT) == 200

    page = await ada.list("data/")
    whole = await ada.list("data", recursive="true")
    paths: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        part = await ada.list("data", recursive="true", limit=1, **cursor)
        paths += [each["path"] for each in part["files"]]
        if part["next_cursor"] is None:
            break
        cursor = {"cursor": part["next_cursor"]}

    assert page["folders"] == ["data/run 1"]
    assert [(each["path"], each["size"]) for each in page["files"]] == [("data/a", 8), ("data/b", 8)]
    assert page["owner"] == {"id": await member_id(ada), "name": (await me(ada.browser))["display_name"]}
    assert (page["unreadable"], page["next_cursor"]) == (0, None)
    assert (
        [each["path"] for each in whole["files"]] == paths == ["data/a", "data/b", "data/run 1/c", "data/run 1/deep/d"]
    )
    assert (await ada.list(""))["folders"] == ["scripts", "data", "outputs", "shared"]
    assert (await ada.list("scripts"))["files"] == []


async def test_an_object_of_another_program_that_no_path_names_is_counted_and_hides_no_other(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    root = f"acme/main/users/{await member_id(ada)}/data/"
    for key in ("", "folder/", "ok", "a\u202eb", "..\\x", "%2e%2e", "a//b"):
        files.s3.put_object(Bucket=BUCKET, Key=f"{root}{key}", Body=b"")

    page = await ada.list("data", recursive="true")

    assert [each["path"] for each in page["files"]] == ["data/ok"]
    assert page["unreadable"] == 4


async def test_a_file_is_deleted_once_and_many_at_a_time(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    for name in ("data/a", "data/b", "data/c"):
        assert await ada.put(name, CONTENT) == 200

    once = await ada.call("DELETE", FILES, params={"path": "data/a"})
    again = await ada.call("DELETE", FILES, params={"path": "data/a"})
    many = await ada.call("POST", f"{FILES}/delete", json={"paths": ["data/b", "data/none", "data/b"]})
    mixed = await ada.call("POST", f"{FILES}/delete", json={"paths": ["data/c", "data/../c"]})
    too_many = await ada.call("POST", f"{FILES}/delete", json={"paths": ["data/x"] * 1001})

    assert (once.status, again.status) == (204, 404)
    assert (many.status, many.body) == (200, {"deleted": ["data/b", "data/none"], "failed": []})
    assert (mixed.status, too_many.status) == (400, 400)
    assert [each["path"] for each in (await ada.list("data"))["files"]] == ["data/c"]


async def test_a_file_gets_another_name_and_none_is_lost_at_its_place(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    assert await ada.put("data/a", CONTENT) == 200
    assert await ada.put("data/b", b"other") == 200

    async def rename(**wanted: object) -> tuple[int, object]:
        answer = await ada.call("POST", f"{FILES}/rename", json=wanted)
        return answer.status, answer.body

    assert await rename(source="data/a", destination="outputs/c") == (200, {"path": "outputs/c", "size": 8})
    assert (await rename(source="data/a", destination="data/d"))[0] == 404
    assert (await rename(source="outputs/c", destination="data/b"))[0] == 409
    assert (await rename(source="data/b", destination="data/b"))[0] == 400
    assert await ada.get("data/b") == b"other"
    assert (await rename(source="outputs/c", destination="data/b", overwrite=True))[0] == 200
    assert await ada.get("data/b") == CONTENT
    assert len(files.stored()) == 1


async def test_a_repeated_rename_is_carried_out_once(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    assert await ada.put("data/a", CONTENT) == 200
    wanted, key = {"source": "data/a", "destination": "data/b"}, {"Idempotency-Key": "rename-0001"}

    first, second = [await ada.call("POST", f"{FILES}/rename", json=wanted, headers=key) for _ in range(2)]

    assert (first.status, first.body) == (second.status, second.body) == (200, {"path": "data/b", "size": 8})
    assert second.headers["Idempotent-Replayed"] == "true"


async def test_shared_is_written_by_admins_and_read_by_all(files: FilesWorld) -> None:
    boss, ada = await files.person("boss@acme.example"), await files.person("ada@acme.example")
    await boss.put("data/refs.fa", CONTENT)

    copied = await boss.call("POST", f"{FILES}/copy", json={"source": "data/refs.fa", "destination": "shared/refs.fa"})
    read, page = await ada.get("shared/refs.fa"), await ada.list("shared")

    assert (copied.status, copied.body) == (200, {"path": "shared/refs.fa", "size": 8})
    assert read == CONTENT
    assert ([each["path"] for each in page["files"]], page["owner"]) == (["shared/refs.fa"], None)


async def test_members_write_nothing_in_shared(files: FilesWorld) -> None:
    boss, ada = await files.person("boss@acme.example"), await files.person("ada@acme.example")
    await boss.put("shared/refs.fa", CONTENT)

    refused = [
        await ada.presign("shared/x", CONTENT),
        await ada.call("DELETE", FILES, params={"path": "shared/refs.fa"}),
        await ada.call("POST", f"{FILES}/delete", json={"paths": ["shared/refs.fa"]}),
        await ada.call("POST", f"{FILES}/rename", json={"source": "shared/refs.fa", "destination": "data/x"}),
        await ada.call("POST", f"{FILES}/rename", json={"source": "data/x", "destination": "shared/x"}),
        await ada.call("POST", f"{FILES}/copy", json={"source": "shared/refs.fa", "destination": "shared/x"}),
        await ada.call("POST", UPLOADS, json={"path": "shared/x", "size": 1}),
        await ada.call("GET", UPLOADS, params={"path": "shared"}),
    ]

    assert [answer.status for answer in refused] == [403] * len(refused)


async def test_members_copy_from_shared(files: FilesWorld) -> None:
    boss, ada = await files.person("boss@acme.example"), await files.person("ada@acme.example")
    await boss.put("shared/refs.fa", CONTENT)

    taken = await ada.call("POST", f"{FILES}/copy", json={"source": "shared/refs.fa", "destination": "data/refs.fa"})

    assert taken.status == 200
    assert await ada.get("data/refs.fa") == CONTENT


async def test_a_viewer_reads_and_does_not_write(files: FilesWorld) -> None:
    chief, ada = await owner(files.world), await files.person("ada@acme.example")
    assert await ada.put("data/x", CONTENT) == 200
    assert await change(chief, await member_id(ada), role="viewer") == 200

    async def demoted() -> bool:
        return bool((await me(ada.browser))["role"] == "viewer")

    await until(demoted, seconds=90, what="the role to be taken")
    assert await ada.get("data/x") == CONTENT
    assert (await ada.presign("data/y", CONTENT)).status == 403
    assert (await ada.call("DELETE", FILES, params={"path": "data/x"})).status == 403


@pytest.mark.parametrize(("scope", "read", "write"), [("files:read", 200, 403), ("jobs:read", 403, 403)])
async def test_a_token_needs_the_scopes(files: FilesWorld, scope: str, read: int, write: int) -> None:
    ada = await files.person("ada@acme.example")
    made = await ada.call("POST", "/v1/users/me/tokens", json={"name": "ci", "scopes": [scope]})
    headers = {"Authorization": f"Bearer {made.body['token']}"}

    reading = await ada.call("POST", PRESIGN, json={"path": "data/x", "method": "GET"}, headers=headers)
    wanted = {"path": "data/x", "size": 8, "sha256": sha256(CONTENT)}
    writing = await ada.call("POST", PRESIGN, json=wanted, headers=headers)

    assert (reading.status, writing.status) == (read, write)


async def test_people_and_tenants_see_none_of_each_others_files(files: FilesWorld) -> None:
    ada, bob = await files.person("ada@acme.example"), await files.person("bob@acme.example")
    eve = await files.person("chief@rival.example")
    assert await ada.put("data/x", CONTENT) == 200

    assert await bob.get("data/x") is None
    assert (await bob.list("data"))["files"] == []
    assert (await bob.call("DELETE", FILES, params={"path": "data/x"})).status == 404
    assert (await eve.call("GET", FILES, params={"path": "data"})).status == 404
    assert (await eve.call("GET", "/v1/clusters/secret/files", params={"path": "shared"})).body["files"] == []
    assert await ada.get("data/x") == CONTENT


async def test_a_thousand_attempts_at_the_files_of_others_reach_none(files: FilesWorld) -> None:
    ada, eve = await files.person("ada@acme.example"), await files.person("eve@acme.example")
    victim, rng = await member_id(ada), random.Random(16)
    assert await ada.put("data/secret", CONTENT) == 200
    pieces = [
        *("..", "/", "//", "\\", "%2e%2e", "%2f", "..%2f", "．．", "／", "\u202e", "\u200b", "\x00", " ", "~", "."),
        *("users", victim, "data", "shared", "secret", "acme", "main", "ada", "ada@acme.example", "*", "acme/main/"),
    ]
    whole = [path.replace("f" * 32, victim) for path in (*OUTSIDE, *MALFORMED)]
    attempts = [f"acme/main/users/{victim}/data/secret", f"data/../../{victim}/data/secret", *whole]
    while len(attempts) < 1000:
        made = "".join(rng.choices(pieces, k=rng.randint(1, 7)))
        attempts.append(rng.choice(["", "data/", "shared/", "data/../", "users/"]) + made)

    async def attempt(path: str, number: int) -> str | None:
        """The key that an answer leads to, if any."""
        text = path.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        match number % 4:
            case 0:
                answer = await eve.presign(text)
            case 1:
                answer = await eve.presign(text, b"overwritten")
            case 2:
                answer = await eve.call("GET", FILES, params={"path": text, "recursive": "true"})
                assert answer.status in {200, 400, 404}
                return None if answer.status != 200 else "".join(each["path"] for each in answer.body["files"])
            case _:
                answer = await eve.call("DELETE", FILES, params={"path": text})
        assert answer.status in {200, 204, 400, 403, 404}, (text, answer.body)
        return str(URL(answer.body["url"]).path) if answer.status == 200 else None

    reached = []
    for begin in range(0, 1000, 20):
        batch = enumerate(attempts[begin : begin + 20], begin)
        reached += await asyncio.gather(*(attempt(path, number) for number, path in batch))

    own = f"/{BUCKET}/acme/main/users/{await member_id(eve)}/"
    allowed = (own, f"/{BUCKET}/acme/main/shared/")
    taken = [each for each in reached if each]
    assert taken
    assert all(each.startswith(allowed) for each in taken), taken
    assert not any(victim in each.removeprefix(own).removeprefix(allowed[1]).split("/")[:1] for each in taken)
    assert await ada.get("data/secret") == CONTENT
    assert len(files.stored()) == 1


async def events_of_files(files: FilesWorld) -> list[Event]:
    """The events of the cluster's files from now on, a list that grows as they come."""
    told: list[Event] = []

    async def heard(message: Msg) -> None:
        told.append(decode(Event, message.data, dict(message.headers or {})))

    await files.world.client.subscribe("event.acme.main.file.>", cb=heard)
    return told


async def event_of_a_rename(files: FilesWorld, owner_of_file: FilesClient) -> Event:
    told = await events_of_files(files)
    await owner_of_file.put("data/x", CONTENT)
    rename = {"source": "data/x", "destination": "outputs/y"}
    assert (await owner_of_file.call("POST", f"{FILES}/rename", json=rename)).status == 200
    await until(lambda: told, seconds=90, what="the event")
    return told[0]


async def test_renames_copies_and_deletes_are_told_with_at_most_50_paths_each(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    told = await events_of_files(files)
    names = [f"data/{number:03}" for number in range(60)]
    await asyncio.gather(*(ada.put(name, CONTENT) for name in (*names, "data/x")))

    changes: tuple[tuple[str, dict[str, object]], ...] = (
        ("rename", {"source": "data/x", "destination": "outputs/y"}),
        ("copy", {"source": "outputs/y", "destination": "outputs/z"}),
        ("delete", {"paths": names}),
    )
    statuses = [(await ada.call("POST", f"{FILES}/{verb}", json=body)).status for verb, body in changes]
    await until(lambda: len(told) >= 4, seconds=90, what="four events")

    assert statuses == [200, 200, 200]
    facts = [each.data for each in told if isinstance(each.data, FileFact)]
    assert {(fact.kind, fact.paths, fact.destination) for fact in facts} == {
        ("file.renamed", ("data/x",), "outputs/y"),
        ("file.copied", ("outputs/y",), "outputs/z"),
        ("file.deleted", tuple(names[:50]), ""),
        ("file.deleted", tuple(names[50:]), ""),
    }
    assert len({each.id for each in told}) == 4


async def test_what_is_done_to_files_is_told_to_their_owner_and_admins_alone(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    uid = (await me(ada.browser))["uid"]
    owner_of_files, other = (Viewer(user=SlurmUser(name="x", uid=each, gid=each)) for each in (uid, uid + 1))
    viewers = (
        owner_of_files,
        other,
        other.model_copy(update={"admin": True}),
        other.model_copy(update={"sees_all": True}),
    )

    event = await event_of_a_rename(files, ada)

    assert [may_see(viewer, event.data) for viewer in viewers] == [True, False, True, False]


async def test_the_history_names_who_renamed_a_file(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")

    entry = entry_of(await event_of_a_rename(files, ada))

    assert entry is not None
    assert (entry.actor, entry.subject) == ("ada", "files")


async def test_a_cursor_that_no_server_gives_is_refused(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")

    answer = await ada.call("GET", FILES, params={"path": "data", "cursor": "\x10\xa5"})

    assert (answer.status, answer.body["detail"]) == (400, "the cursor is not one of this list")
