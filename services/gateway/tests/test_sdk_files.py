"""The SDK's files at a real gateway and a real bucket: whole or not at all, resumed, and never at another place."""

import asyncio
import errno
import io
import logging
import os
import random
import threading
import unicodedata
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from clusterra import AsyncClient, Client, FileChanged, NotFound, Refused
from clusterra.errors import DeleteRefused
from clusterra.files.listing import StoredFolder
from clusterra.files.progress import Progress
from clusterra.files.trees import Sync
from clusterra.models import StoredFile
from clusterra_gateway.files import uploads
from clusterra_gateway.http.requests.errors import Conflict
from clusterra_gateway.http.requests.errors import NotFound as GatewayNotFound
from files_world import UPLOADS, FilesClient, FilesWorld
from people_world import make_token

MIB = 1024**2
PART = 5 * MIB
RANGE_BYTES = MIB


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra.files.part_file.RANGE_BYTES", RANGE_BYTES)


@pytest.fixture
async def ada(files: FilesWorld) -> FilesClient:
    return await files.person("ada@acme.example")


@pytest.fixture
async def token(ada: FilesClient) -> str:
    made: str = (await make_token(ada.browser))["token"]
    return made


@pytest.fixture
async def client(files: FilesWorld, token: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(files.world.url, token, cluster="main") as client:
        yield client


@pytest.fixture
def sync_client(files: FilesWorld, token: str) -> Iterator[Client]:
    with Client(files.world.url, token, cluster="main") as client:
        yield client


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def file_of(folder: Path, content: bytes, name: str = "source.bin") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


class Noted(Progress):
    """Notes what was copied. It breaks the copy off after so many bytes."""

    def __init__(self, most: int | None = None) -> None:
        self.sizes: list[int] = []
        self.most = most

    def transferred(self, size: int) -> None:
        self.sizes.append(size)
        if self.most is not None and sum(self.sizes) > self.most:
            raise InterruptedError("the cable is out")


def parts_in(folder: Path) -> list[Path]:
    return list(folder.glob(".clusterra-*.part"))


@pytest.mark.parametrize("size", [0, 1, MIB + 1, 2 * PART, 2 * PART + 3])
async def test_what_is_uploaded_is_downloaded(client: AsyncClient, tmp_path: Path, size: int) -> None:
    content = noise(size)
    source, target = file_of(tmp_path, content), tmp_path / "target.bin"
    noted = Noted()

    await client.files.upload(source, "data/a/x.bin", part_bytes=PART, progress=noted)
    await client.files.download("data/a/x.bin", target)
    written = io.BytesIO()
    await client.files.download("data/a/x.bin", written)

    assert target.read_bytes() == written.getvalue() == content
    assert sum(noted.sizes) == size
    known = await client.files.stat("data/a/x.bin")
    assert (known.path, known.size) == ("data/a/x.bin", size)
    (listed,) = [each async for each in client.files.list("data/a")]
    assert isinstance(listed, StoredFile)
    assert (listed.path, listed.size, listed.etag) == (known.path, known.size, known.etag)
    assert [each async for each in client.files.list("data")] == [StoredFolder("data/a")]
    assert parts_in(tmp_path) == []


def _whole_life(client: Client, folder: Path) -> None:
    content = noise(3 * PART)
    client.files.upload(content, "data/x", part_bytes=PART)
    client.files.upload(io.BytesIO(b"from a pipe"), "data/y")
    assert client.files.copy("data/x", "outputs/x").size == len(content)
    with pytest.raises(Refused):
        client.files.move("data/y", "outputs/x")
    assert client.files.move("data/y", "outputs/y", overwrite=True).path == "outputs/y"
    client.files.download("outputs/x", folder / "x")
    assert (folder / "x").read_bytes() == content
    client.files.delete("data/x")
    with pytest.raises(NotFound):
        client.files.delete("data/x")
    with pytest.raises(NotFound, match="data/x"):
        client.files.download("data/x", folder / "none")
    assert not (folder / "none").exists()
    assert client.files.delete_many(["outputs/x", "outputs/y", "outputs/none"]) == ()
    assert list(client.files.list("outputs", recursive=True)) == []
    assert [each.path for each in client.files.on("main").list()] == ["scripts", "data", "outputs", "shared"]


async def test_a_program_without_asyncio(sync_client: Client, tmp_path: Path) -> None:
    await asyncio.to_thread(_whole_life, sync_client, tmp_path)


@pytest.mark.parametrize("synchronous", [True, False])
async def test_an_upload_that_breaks_off_goes_on(
    sync_client: Client, client: AsyncClient, ada: FilesClient, tmp_path: Path, synchronous: bool
) -> None:
    content = noise(6 * PART)
    source = file_of(tmp_path, content)

    async def upload(progress: Noted) -> None:
        if synchronous:
            await asyncio.to_thread(sync_client.files.upload, source, "data/x", part_bytes=PART, progress=progress)
        else:
            await client.files.upload(source, "data/x", part_bytes=PART, progress=progress)

    with pytest.raises(InterruptedError):
        await upload(Noted(most=5 * PART))
    assert (await ada.list("data"))["files"] == []
    rest = Noted()
    await upload(rest)

    assert PART in rest.sizes  # a part that was there already
    assert sum(rest.sizes) == len(content)
    assert await ada.get("data/x") == content
    assert (await ada.call("GET", UPLOADS, params={"path": "data/x"})).body["uploads"] == []


async def test_an_unfinished_upload_of_another_version_is_no_part_of_the_file(
    client: AsyncClient, ada: FilesClient, tmp_path: Path
) -> None:
    with pytest.raises(InterruptedError):
        await client.files.upload(
            file_of(tmp_path, noise(4 * PART, 1)), "data/x", part_bytes=PART, progress=Noted(most=3 * PART)
        )
    content = noise(4 * PART, 2)

    await client.files.upload(file_of(tmp_path, content), "data/x", part_bytes=PART)

    assert await ada.get("data/x") == content


async def test_two_programs_that_upload_to_one_path_make_no_mixture(client: AsyncClient, ada: FilesClient) -> None:
    contents = [noise(4 * PART, seed) for seed in (1, 2)]
    uploads = (client.files.upload(each, "data/x", part_bytes=PART) for each in contents)

    ended = await asyncio.gather(*uploads, return_exceptions=True)

    assert all(each is None or isinstance(each, FileChanged | NotFound) for each in ended), ended
    if any(each is None for each in ended):
        assert await ada.get("data/x") in contents


async def test_a_source_that_is_written_meanwhile_is_no_upload(client: AsyncClient, tmp_path: Path) -> None:
    source = file_of(tmp_path, noise(2 * MIB))

    class Writing(Progress):
        def transferred(self, size: int) -> None:
            source.write_bytes(noise(2 * MIB, 2))

    with pytest.raises(FileChanged):
        await client.files.upload(source, "data/x", progress=Writing())


async def test_a_download_that_breaks_off_goes_on_with_the_ranges_that_are_missing(
    client: AsyncClient, ada: FilesClient, tmp_path: Path
) -> None:
    content = noise(6 * RANGE_BYTES)
    assert await ada.put("data/x", content) == 200
    target = file_of(tmp_path, b"old", "x")

    with pytest.raises(InterruptedError):
        await client.files.download("data/x", target, progress=Noted(most=5 * RANGE_BYTES))
    assert target.read_bytes() == b"old"
    (part,) = parts_in(tmp_path)
    rest = Noted()
    await client.files.download("data/x", target, progress=rest)

    assert rest.sizes[0] >= RANGE_BYTES  # what was there already
    assert sum(rest.sizes) == len(content)
    assert target.read_bytes() == content
    assert not part.exists()


async def test_a_copy_that_is_cancelled_goes_on(client: AsyncClient, ada: FilesClient, tmp_path: Path) -> None:
    content = noise(20 * RANGE_BYTES)
    assert await ada.put("data/x", content) == 200
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    class Begun(Progress):
        def transferred(self, size: int) -> None:
            loop.call_soon_threadsafe(begun.set)

    copying = asyncio.create_task(client.files.download("data/x", tmp_path / "x", progress=Begun()))
    await begun.wait()
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    await client.files.download("data/x", tmp_path / "x")

    assert (tmp_path / "x").read_bytes() == content


async def test_a_download_of_another_version_begins_anew(client: AsyncClient, ada: FilesClient, tmp_path: Path) -> None:
    contents = [noise(5 * RANGE_BYTES, seed) for seed in (1, 2)]
    assert await ada.put("data/x", contents[0]) == 200
    with pytest.raises(InterruptedError):
        await client.files.download("data/x", tmp_path / "x", progress=Noted(most=3 * RANGE_BYTES))
    assert await ada.put("data/x", contents[1]) == 200

    await client.files.download("data/x", tmp_path / "x")

    assert (tmp_path / "x").read_bytes() == contents[1]


async def test_a_file_that_is_replaced_while_it_is_downloaded_is_no_mixture(
    client: AsyncClient, ada: FilesClient, files: FilesWorld, tmp_path: Path
) -> None:
    contents = [noise(6 * RANGE_BYTES, seed) for seed in (1, 2)]
    assert await ada.put("data/x", contents[0]) == 200
    (key,) = files.stored()

    class Replacing(Progress):
        done = False
        lock = threading.Lock()

        def transferred(self, size: int) -> None:
            with self.lock:  # no other range is read meanwhile
                if self.done or not size:
                    return
                self.done = True
                files.s3.put_object(Bucket="acme-files", Key=key, Body=contents[1])

    with pytest.raises(FileChanged):
        await client.files.download("data/x", tmp_path / "x", progress=Replacing())
    assert not (tmp_path / "x").exists()


async def test_a_file_with_another_checksum_than_its_etag_is_not_taken(
    client: AsyncClient, ada: FilesClient, tmp_path: Path
) -> None:
    assert await ada.put("data/x", noise(2 * RANGE_BYTES)) == 200

    class Spoiling(Progress):
        def transferred(self, size: int) -> None:
            for part in parts_in(tmp_path):
                with part.open("r+b") as opened:
                    opened.write(b"spoilt")

    with pytest.raises(FileChanged, match="checksum"):
        await client.files.download("data/x", tmp_path / "x", progress=Spoiling())
    assert not (tmp_path / "x").exists()
    await client.files.download("data/x", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == noise(2 * RANGE_BYTES)


async def test_no_signed_url_is_in_a_log_or_an_error(
    client: AsyncClient, files: FilesWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await client.files.upload(noise(2 * PART), "data/x", part_bytes=PART)
        await client.files.download("data/x", tmp_path / "x")
        with pytest.raises(NotFound) as missing:
            await client.files.download("data/none", tmp_path / "none")

    # The gateway is in the same process, and signs.
    logged = "".join(each.getMessage() for each in caplog.records if each.name.startswith("http"))
    assert "acme-files" in logged  # the requests were logged
    assert "ignature=" not in logged
    assert "ignature" not in repr(missing.value) + str(missing.value)


async def test_a_folder_goes_up_and_down(client: AsyncClient, ada: FilesClient, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep" / "er").mkdir(parents=True)
    secret = file_of(tmp_path, b"secret", "secret")
    contents = {"a.txt": b"a", "deep/b": noise(MIB), "deep/er/c ü": b""}
    for name, content in contents.items():
        (source / name).write_bytes(content)
    (source / "link").symlink_to(secret)
    os.mkfifo(source / "pipe")

    up = await client.files.upload_folder(source, "data/run")
    down = await client.files.download_folder("data/run", target)

    assert sorted(up.copied) == sorted(f"data/run/{name}" for name in contents)
    assert sorted(path for path, _ in up.problems) == ["data/run/link", "data/run/pipe"]
    assert (sorted(down.copied), down.problems) == (sorted(up.copied), [])
    assert {
        str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()
    } == contents


async def test_folders_are_made_equal(client: AsyncClient, ada: FilesClient, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    contents = {"same": b"same", "large": noise(2 * PART), "changed": b"old"}
    for name, content in contents.items():
        (source / name).write_bytes(content)
    files = client.files
    await files.upload_folder(source, "data/s", sync=Sync(), part_bytes=PART)
    assert (await files.upload_folder(source, "data/s", sync=Sync())).unchanged == 3
    await files.download_folder("data/s", target, sync=Sync())
    assert (await files.download_folder("data/s", target, sync=Sync())).unchanged == 3
    (source / "changed").write_bytes(b"new")
    (source / "same").unlink()

    dry = await files.upload_folder(source, "data/s", sync=Sync(delete=True, dry_run=True))
    assert (dry.copied, dry.deleted, dry.unchanged) == (["data/s/changed"], ["data/s/same"], 1)
    assert await ada.get("data/s/changed") == b"old"
    done = await files.upload_folder(source, "data/s", sync=Sync(delete=True))
    assert (done.copied, done.deleted) == (dry.copied, dry.deleted)
    assert await ada.get("data/s/same") is None

    (target / "own link").symlink_to(source / "large")
    down = await files.download_folder("data/s", target, sync=Sync(delete=True))
    assert (down.copied, down.deleted, down.unchanged) == (["data/s/changed"], ["data/s/same"], 1)
    assert sorted(each.name for each in target.iterdir()) == ["changed", "large", "own link"]
    assert (target / "changed").read_bytes() == b"new"


async def test_a_download_follows_no_link_out_of_its_folder(
    client: AsyncClient, ada: FilesClient, tmp_path: Path
) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    kept = file_of(outside, b"kept", "kept")
    for path in ("data/t/out/kept", "data/t/file", "data/t/fine"):
        assert await ada.put(path, b"hostile") == 200
    (target / "out").symlink_to(outside)
    (target / "file").symlink_to(kept)

    report = await client.files.download_folder("data/t", target)

    assert [path for path, _ in report.problems] == ["data/t/out/kept"]
    assert [each.name for each in outside.iterdir()] == ["kept"]
    assert kept.read_bytes() == b"kept"
    assert not (target / "file").is_symlink()
    assert (target / "fine").read_bytes() == b"hostile"


async def test_names_that_differ_in_unicodes_form_alone_are_one_file(
    client: AsyncClient, ada: FilesClient, tmp_path: Path
) -> None:
    composed, decomposed = (unicodedata.normalize(form, "Grün é.txt") for form in ("NFC", "NFD"))
    folder = unicodedata.normalize("NFD", "data/Übung")
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / decomposed).write_bytes(b"content")

    first = await client.files.upload_folder(source, folder, sync=Sync(delete=True))
    second = await client.files.upload_folder(source, folder, sync=Sync(delete=True))
    assert (len(first.copied), second.copied, second.deleted, second.unchanged) == (1, [], [], 1)
    assert await ada.get(f"data/Übung/{composed}") == b"content"

    (target / decomposed).write_bytes(b"content")  # as a disk with names in the other form has it
    down = await client.files.download_folder(folder, target, sync=Sync(delete=True))
    assert (down.deleted, down.problems) == ([], [])

    (source / composed).write_bytes(b"another file")
    third = await client.files.upload_folder(source, folder, sync=Sync(delete=True))
    assert [path for path, _ in third.problems] == [f"data/Übung/{composed}"]
    assert third.deleted == []


async def test_a_file_that_another_name_leads_to_is_not_deleted(
    client: AsyncClient, ada: FilesClient, tmp_path: Path
) -> None:
    """As on a disk that takes capital and small letters as equal: one file, and another name than the bucket's."""
    assert await ada.put("data/s/readme", b"content") == 200
    target = tmp_path / "target"
    target.mkdir()
    (target / "README").write_bytes(b"content")
    (target / "readme").hardlink_to(target / "README")

    report = await client.files.download_folder("data/s", target, sync=Sync(delete=True))

    assert (report.unchanged, report.deleted) == (1, [])


async def test_an_empty_source_deletes_nothing(client: AsyncClient, ada: FilesClient, tmp_path: Path) -> None:
    kept = file_of(tmp_path, b"kept")
    assert await ada.put("data/s/kept", b"kept") == 200
    (tmp_path / "empty").mkdir()

    with pytest.raises(DeleteRefused, match="data/typo"):
        await client.files.download_folder("data/typo", tmp_path, sync=Sync(delete=True))
    with pytest.raises(DeleteRefused, match="empty"):
        await client.files.upload_folder(tmp_path / "empty", "data/s", sync=Sync(delete=True))

    assert kept.read_bytes() == b"kept"
    assert await ada.get("data/s/kept") == b"kept"


async def test_objects_that_a_list_leaves_out_are_not_missing(
    client: AsyncClient, ada: FilesClient, files: FilesWorld, tmp_path: Path
) -> None:
    assert await ada.put("data/s/fine", b"fine") == 200
    (key,) = files.stored()
    files.s3.put_object(Bucket="acme-files", Key=key.removesuffix("fine") + "a//b", Body=b"unreadable")
    kept = file_of(tmp_path, b"kept")

    report = await client.files.download_folder("data/s", tmp_path, sync=Sync(delete=True))

    assert (report.copied, report.deleted) == (["data/s/fine"], [])
    assert [path for path, _ in report.problems] == ["data/s"]
    assert kept.exists()


async def test_a_large_file_with_another_content_is_copied_whatever_its_time(
    client: AsyncClient, ada: FilesClient, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    large = file_of(source, noise(2 * PART), "large")
    await client.files.upload_folder(source, "data/s", part_bytes=PART)
    large.write_bytes(noise(2 * PART, 2))
    os.utime(large, (1, 1))

    report = await client.files.upload_folder(source, "data/s", sync=Sync())

    assert report.copied == ["data/s/large"]


async def test_a_folder_that_becomes_a_link_is_not_uploaded(
    client: AsyncClient, ada: FilesClient, tmp_path: Path
) -> None:
    source, secrets = tmp_path / "source", tmp_path / "secrets"
    (source / "b").mkdir(parents=True)
    secrets.mkdir()
    file_of(source / "b", b"fine", "key")
    file_of(secrets, b"secret", "key")

    class Swapping(Progress):
        def planned(self, files: int, size: int) -> None:
            (source / "b").rename(source / "away")
            (source / "b").symlink_to(secrets)

    report = await client.files.upload_folder(source, "data/s", progress=Swapping())

    assert [path for path, _ in report.problems] == ["data/s/b/key"]
    assert await ada.get("data/s/b/key") is None


async def test_parts_within_bounds_are_found_again(client: AsyncClient, ada: FilesClient, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    file_of(source, noise(6 * PART), "large")
    with pytest.raises(InterruptedError):
        await client.files.upload(source / "large", "data/s/large", part_bytes=PART, progress=Noted(most=5 * PART))

    report = await client.files.upload_folder(source, "data/s", part_bytes=1)

    assert report.copied == ["data/s/large"]
    assert (await ada.call("GET", UPLOADS, params={"path": "data/s/large"})).body["uploads"] == []


async def test_a_refused_upload_is_no_success_because_an_equally_large_file_is_there(
    client: AsyncClient, ada: FilesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.files.upload(noise(2 * PART), "data/x", part_bytes=PART)

    async def refused(*_: object) -> str:
        raise Conflict("the bucket has a lock")

    monkeypatch.setattr("clusterra_gateway.files.upload_handlers.complete", refused)
    with pytest.raises(FileChanged):
        await client.files.upload(noise(2 * PART, 2), "data/x", part_bytes=PART)

    assert await ada.get("data/x") == noise(2 * PART)


async def test_an_upload_that_was_made_is_a_success_whatever_is_answered(
    client: AsyncClient, ada: FilesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def made(*arguments: Any) -> str:
        await uploads.complete(*arguments)
        raise GatewayNotFound("the upload is gone")

    monkeypatch.setattr("clusterra_gateway.files.upload_handlers.complete", made)
    await client.files.upload(noise(2 * PART), "data/x", part_bytes=PART)

    assert await ada.get("data/x") == noise(2 * PART)


async def test_a_part_file_of_somebody_else_is_not_gone_on_with(
    client: AsyncClient, ada: FilesClient, tmp_path: Path
) -> None:
    assert await ada.put("data/x", noise(3 * RANGE_BYTES)) == 200
    with pytest.raises(InterruptedError):
        await client.files.download("data/x", tmp_path / "x", progress=Noted(most=2 * RANGE_BYTES))
    (part,) = parts_in(tmp_path)
    assert part.stat().st_mode & 0o777 == 0o600
    part.chmod(0o666)

    with pytest.raises(OSError, match="own file"):
        await client.files.download("data/x", tmp_path / "x")
    part.chmod(0o600)
    (tmp_path / "second name").hardlink_to(part)
    with pytest.raises(OSError, match="own file"):
        await client.files.download("data/x", tmp_path / "x")


async def test_the_checksum_of_a_download_without_missing_ranges_is_compared(
    client: AsyncClient, ada: FilesClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ada.put("data/x", noise(3 * RANGE_BYTES)) == 200

    def interrupted(*_: object, **__: object) -> None:
        raise InterruptedError("the power is out")

    with monkeypatch.context() as patched:
        patched.setattr("clusterra.files.part_file.PartFile.finish", interrupted)
        with pytest.raises(InterruptedError):
            await client.files.download("data/x", tmp_path / "x")
    (part,) = parts_in(tmp_path)
    with part.open("r+b") as opened:
        opened.write(b"spoilt")

    with pytest.raises(FileChanged, match="checksum"):
        await client.files.download("data/x", tmp_path / "x")
    assert not (tmp_path / "x").exists()


async def test_a_download_has_the_usual_mode_also_where_files_cannot_be_locked(
    client: AsyncClient, ada: FilesClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ada.put("data/x", b"content") == 200

    def without_locks(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no locks here")

    monkeypatch.setattr("clusterra.files.part_file.fcntl.flock", without_locks)
    await client.files.download("data/x", tmp_path / "x")

    usual = file_of(tmp_path, b"usual", "usual")
    assert (tmp_path / "x").stat().st_mode == usual.stat().st_mode
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith(".")) == []
