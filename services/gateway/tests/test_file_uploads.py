"""Uploads in parts to a real bucket: cut anywhere, they go on; only whole files are made.

`UPLOAD_BYTES` sets the size of the file that is cut in the middle (`make test-uploads` sends a larger one).
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Any, overload

import pytest
from clusterra_gateway.files import uploads
from clusterra_lab.machine.process import until
from files_world import UPLOADS, FilesClient, FilesWorld, sha256
from yarl import URL

MIB = 1024**2
PART = 5 * MIB
"""S3's smallest part."""
LARGE = int(os.environ.get("UPLOAD_BYTES", str(64 * MIB)))


class Connection(Exception):
    """The client has lost its connection."""


class Uploader:
    """A client that sends a file part by part, as one that lost everything but the path and the file."""

    def __init__(self, person: FilesClient, path: str, parts: Sequence[bytes]) -> None:
        self.person = person
        self.path = path
        self.parts = parts
        self.sent: list[int] = []

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))

    async def begin(self) -> str:
        """Begin, or find the upload that was begun before."""
        known = await self.person.call("GET", UPLOADS, params={"path": self.path})
        if known.body["uploads"]:
            assert known.body["uploads"][0]["path"] == self.path
            return str(known.body["uploads"][0]["upload_id"])
        begun = await self.person.call("POST", UPLOADS, json={"path": self.path, "size": self.size})
        assert begun.status == 201, begun.body
        return str(begun.body["upload_id"])

    async def send(self, upload: str, *, most: int | None = None) -> None:
        """Send the parts that the bucket lacks. Raises Connection after `most` parts."""
        there = {each["number"] for each in (await self.listed(upload))["parts"]}
        for number, content in enumerate(self.parts, 1):
            if number in there:
                continue
            if most is not None and len(self.sent) >= most:
                raise Connection
            signed = await self.sign(upload, number, content)
            assert await self.person.send(signed, content) == 200
            self.sent.append(number)

    async def sign(self, upload: str, number: int, content: bytes) -> dict[str, Any]:
        part = {"number": number, "size": len(content), "sha256": sha256(content)}
        answer = await self.person.call(
            "POST", f"{UPLOADS}/{upload}/part-urls", json={"path": self.path, "parts": [part]}
        )
        assert answer.status == 200, answer.body
        (signed,) = answer.body["urls"]
        return dict(signed)

    async def listed(self, upload: str) -> dict[str, Any]:
        answer = await self.person.call("GET", f"{UPLOADS}/{upload}/parts", params={"path": self.path})
        assert answer.status == 200, answer.body
        return dict(answer.body)

    async def complete(
        self, upload: str, size: int | None = None, parts: Sequence[tuple[int, str]] | None = None
    ) -> tuple[int, Any]:
        wanted: dict[str, Any] = {"path": self.path, "size": self.size if size is None else size}
        if parts is not None:
            wanted["parts"] = [{"number": number, "sha256": digest} for number, digest in parts]
        answer = await self.person.call("POST", f"{UPLOADS}/{upload}/complete", json=wanted)
        return answer.status, answer.body


class LargeFile(Sequence[bytes]):
    """The parts of a file, each with other bytes, made when they are needed: the file need not fit into memory."""

    def __init__(self, size: int, part: int) -> None:
        self._sizes = [min(part, size - begin) for begin in range(0, size, part)]

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(number, slice):
            raise TypeError("one part at a time")
        return bytes([number % 251]) * self._sizes[number]


async def test_an_upload_that_is_cut_in_the_middle_goes_on_with_the_parts_that_are_missing(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    before = Uploader(ada, "data/genome.bam", LargeFile(LARGE, min(max(PART, LARGE // 8), 64 * MIB)))
    upload = await before.begin()
    with pytest.raises(Connection):
        await before.send(upload, most=len(before.parts) // 2)

    after = Uploader(ada, "data/genome.bam", before.parts)
    assert await after.begin() == upload
    assert (await after.complete(upload))[0] == 409
    await after.send(upload)
    status, made = await after.complete(upload)

    assert status == 200, made
    assert made["size"] == LARGE
    assert sorted(before.sent + after.sent) == list(range(1, len(before.parts) + 1))
    assert (await ada.call("GET", UPLOADS, params={"path": "data"})).body["uploads"] == []
    signed = await ada.presign("data/genome.bam")
    async with ada.http.get(URL(signed.body["url"], encoded=True)) as answer:
        digest = hashlib.sha256()
        async for content in answer.content.iter_chunked(MIB):
            digest.update(content)
    whole = hashlib.sha256()
    for each in before.parts:
        whole.update(each)
    assert digest.hexdigest() == whole.hexdigest()


async def test_the_bucket_takes_no_part_with_other_bytes_or_another_number(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    uploader = Uploader(ada, "data/x", [b"a" * PART, b"end"])
    upload = await uploader.begin()
    signed = await uploader.sign(upload, 1, b"a" * PART)

    refused = [
        await ada.send(signed, b"b" * PART),
        await ada.send(signed | {"headers": signed["headers"] | {"Content-Length": "3"}}, b"aaa"),
        await ada.send(signed | {"url": signed["url"].replace("partNumber=1&", "partNumber=2&")}, b"a" * PART),
    ]

    assert all(status in {400, 403} for status in refused), refused
    assert (await uploader.listed(upload))["parts"] == []


async def test_the_uploads_to_a_folder_or_to_a_file_of_a_similar_name_are_others(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    paths = ("data/x", "data/x/y", "data/xx")
    for path in paths:
        await Uploader(ada, path, [b"end"]).begin()

    found = {
        path: [each["path"] for each in (await ada.call("GET", UPLOADS, params={"path": path})).body["uploads"]]
        for path in ("data/x", "data/xx", "data")
    }

    assert found == {"data/x": ["data/x", "data/x/y"], "data/xx": ["data/xx"], "data": list(paths)}


async def test_only_a_whole_file_is_made(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    uploader = Uploader(ada, "data/x", [b"a" * PART, b"b" * PART, b"end"])
    upload = await uploader.begin()

    nothing = await uploader.complete(upload)
    for number in (1, 3):
        signed = await uploader.sign(upload, number, uploader.parts[number - 1])
        assert await ada.send(signed, uploader.parts[number - 1]) == 200
    gap = await uploader.complete(upload)
    await uploader.send(upload)
    other_size = await uploader.complete(upload, uploader.size + 1)

    assert [nothing[0], gap[0], other_size[0]] == [409, 409, 409]
    assert "part 2 is missing" in gap[1]["detail"]
    assert str(uploader.size) in other_size[1]["detail"]
    assert (await uploader.complete(upload))[0] == 200
    assert await ada.get("data/x") == b"".join(uploader.parts)


async def test_a_file_is_made_of_the_named_parts_alone(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    uploader = Uploader(ada, "data/x", [b"a" * PART, b"b" * PART])
    upload = await uploader.begin()
    await uploader.send(upload)
    own = [(number, sha256(content)) for number, content in enumerate(uploader.parts, 1)]

    of_another = await uploader.complete(upload, parts=[own[0], (2, sha256(b"c" * PART))])
    fewer = await uploader.complete(upload, parts=own[:1])
    more = await uploader.complete(upload, parts=[*own, (3, sha256(b""))])
    twice = await uploader.complete(upload, parts=[own[0], own[0]])

    assert [of_another[0], fewer[0], more[0], twice[0]] == [409, 409, 409, 400]
    assert of_another[1]["detail"] == "part 2 is not what the request names"
    assert await ada.get("data/x") is None
    assert (await uploader.complete(upload, parts=own))[0] == 200
    assert await ada.get("data/x") == b"".join(uploader.parts)


async def test_the_largest_number_of_parts_can_be_named(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    uploader = Uploader(ada, "data/x", [b"a"])
    upload = await uploader.begin()
    await uploader.send(upload)

    status, problem = await uploader.complete(upload, parts=[(each, sha256(b"a")) for each in range(1, 10_001)])

    assert status == 409, problem


async def test_parts_that_are_too_small_make_no_file(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    uploader = Uploader(ada, "data/x", [b"a", b"b"])
    upload = await uploader.begin()
    await uploader.send(upload)

    status, problem = await uploader.complete(upload)

    assert status == 409
    assert problem["detail"] == "part 1 is smaller than 5 MiB"


async def test_a_server_that_takes_too_long_to_make_the_file_leaves_the_outcome_open(
    files: FilesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await files.person("ada@acme.example")
    uploader = Uploader(ada, "data/x", [b"a" * PART])
    upload = await uploader.begin()
    await uploader.send(upload)
    with monkeypatch.context() as impatient:
        impatient.setattr(uploads, "PATIENT_SECONDS", 0.0)
        status, problem = await uploader.complete(upload)

    async def made() -> bool:
        return await ada.get("data/x") == b"a" * PART or (await uploader.complete(upload))[0] == 200

    assert status == 504
    assert "list the folder" in problem["hint"]
    await until(made, seconds=90, what="the file, by that request or by another one")


async def test_an_aborted_upload_is_gone(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    uploader = Uploader(ada, "data/x", [b"a" * PART])
    upload = await uploader.begin()
    await uploader.send(upload)

    aborted = await ada.call("DELETE", f"{UPLOADS}/{upload}", params={"path": "data/x"})
    again = await ada.call("DELETE", f"{UPLOADS}/{upload}", params={"path": "data/x"})

    assert (aborted.status, again.status) == (204, 404)
    assert (await uploader.complete(upload))[0] == 404
    assert files.stored() == set()


async def test_nobody_reaches_the_upload_of_another_person(files: FilesWorld) -> None:
    ada, eve = await files.person("ada@acme.example"), await files.person("eve@acme.example")
    uploader = Uploader(ada, "data/x", [b"a" * PART])
    upload = await uploader.begin()
    theirs = Uploader(eve, "data/x", [b"evil"])

    listed = await eve.call("GET", UPLOADS, params={"path": "data"})
    parts = await eve.call("GET", f"{UPLOADS}/{upload}/parts", params={"path": "data/x"})
    part = {"number": 1, "size": 4, "sha256": sha256(b"evil")}
    signed = await eve.call("POST", f"{UPLOADS}/{upload}/part-urls", json={"path": "data/x", "parts": [part]})
    completed, _ = await theirs.complete(upload)
    aborted = await eve.call("DELETE", f"{UPLOADS}/{upload}", params={"path": "data/x"})

    assert listed.body["uploads"] == []
    assert (parts.status, signed.status, completed, aborted.status) == (404, 404, 404, 404)
    await uploader.send(upload)
    assert (await uploader.complete(upload))[0] == 200
    assert await ada.get("data/x") == b"a" * PART


async def test_a_repeated_begin_with_one_key_begins_one_upload(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    wanted, key = {"path": "data/x", "size": 3 * 1024**4}, {"Idempotency-Key": "upload-0001"}

    first, second = [await ada.call("POST", UPLOADS, json=wanted, headers=key) for _ in range(2)]

    assert first.status == second.status == 201
    assert first.body == second.body
    assert first.body["part_size"] * first.body["part_count"] >= 3 * 1024**4
    assert first.body["part_count"] <= 10_000
    assert len((await ada.call("GET", UPLOADS, params={"path": "data"})).body["uploads"]) == 1


async def test_a_file_beyond_the_bound_is_refused_before_it_is_sent(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")

    answer = await ada.call("POST", UPLOADS, json={"path": "data/x", "size": 5 * 1024**4 + 1})

    assert answer.status == 413


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [{"number": 0, "size": 1, "sha256": "0" * 64}],
        [{"number": 10_001, "size": 1, "sha256": "0" * 64}],
        [{"number": 1, "size": 0, "sha256": "0" * 64}],
        [{"number": 1, "size": 1}],
        [{"number": 1, "size": 1, "sha256": "0" * 64}] * 2,
        [{"number": number, "size": 1, "sha256": "0" * 64} for number in range(1, 102)],
    ],
)
async def test_a_malformed_request_for_parts_is_refused(files: FilesWorld, parts: list[dict[str, object]]) -> None:
    ada = await files.person("ada@acme.example")

    answer = await ada.call("POST", f"{UPLOADS}/{'0' * 32}/part-urls", json={"path": "data/x", "parts": parts})

    assert answer.status == 400
