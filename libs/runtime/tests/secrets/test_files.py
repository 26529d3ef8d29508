"""Secrets from files."""

import os
from pathlib import Path

import pytest
from clusterra_runtime.secrets import files
from clusterra_runtime.secrets.files import MAX_BYTES
from clusterra_runtime.secrets.local import read_binary_secret, read_secret
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import InvalidReference, SecretUnavailable


def test_a_file_is_read_without_the_white_space_around_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b" k\x00y \n")
    assert read_secret(f"file:{tmp_path}/key") == b"k\x00y"
    assert read_binary_secret(f"file:{tmp_path}/key") == b" k\x00y \n"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"first")

    assert read_secret(f"file:{key}") == b"first"

    status = key.stat()
    replacement = tmp_path / "new"
    replacement.write_bytes(b"other")
    os.utime(replacement, ns=(status.st_atime_ns, status.st_mtime_ns))
    replacement.rename(key)

    assert read_secret(f"file:{key}") == b"other"


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"first")
    read_secret(f"file:{key}")
    monkeypatch.setattr(files, "_content", lambda *_paths: pytest.fail("it was read again"))
    assert read_secret(f"file:{key}") == b"first"


def test_the_error_names_a_missing_or_empty_file(tmp_path: Path) -> None:
    with pytest.raises(SecretUnavailable, match=f"{tmp_path}/none cannot be read"):
        read_secret(f"file:{tmp_path}/none")
    (tmp_path / "empty").write_bytes(b"\n")
    with pytest.raises(SecretUnavailable, match="is empty"):
        read_secret(f"file:{tmp_path}/empty")


def test_a_file_that_is_too_large_for_a_secret_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "disk").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(SecretUnavailable, match="no secret is larger"):
        read_secret(f"file:{tmp_path}/disk")


def test_a_file_whose_stated_size_is_not_true_is_read_only_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 8)
    (tmp_path / "key").symlink_to("/proc/self/status")
    with pytest.raises(SecretUnavailable, match="goes on after 8 bytes"):
        read_secret(f"file:{tmp_path}/key")


def test_only_a_regular_file_is_read_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(SecretUnavailable, match="not a regular file"):
            read_secret(f"file:{path}")


@pytest.mark.parametrize("reference", ["kubernetes:slurm/keys/jwt", "aws-secretsmanager:name"])
def test_only_files_are_read_where_the_loop_must_not_wait(reference: str) -> None:
    with pytest.raises(SecretUnavailable, match="file:/path"):
        read_secret(reference)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a secret, as Kubernetes mounts one: by links within the folder."""
    mounted = tmp_path / "mounted"
    (mounted / "..2026_11").mkdir(parents=True)
    (mounted / "..2026_11" / "key").write_bytes(b"mounted")
    (mounted / "..data").symlink_to("..2026_11")
    (mounted / "key").symlink_to("..data/key")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "key").write_bytes(b"of others")
    return mounted


async def test_a_file_below_the_folders_is_read_through_links_within_them(folder: Path) -> None:
    async with Secrets(folders=[folder.parent / "none", folder]) as secrets:
        assert await secrets.read(f"file:{folder}/key") == b"mounted"
        assert secrets.last(f"file:{folder}/key") == b"mounted"


async def test_the_folder_itself_may_be_a_link(folder: Path) -> None:
    (folder.parent / "etc").symlink_to(folder)

    async with Secrets(folders=[folder.parent / "etc"]) as secrets:
        assert await secrets.read(f"file:{folder.parent}/etc/key") == b"mounted"


@pytest.mark.parametrize("path", ["other/key", "mounted-too/key", "mounted/linked", "mounted/folder/key", "none"])
async def test_no_other_file_is_read(folder: Path, path: str) -> None:
    beside = folder.parent
    (beside / "mounted-too").symlink_to("other")
    (folder / "linked").symlink_to(beside / "other" / "key")
    (folder / "folder").symlink_to(beside / "other")

    async with Secrets(folders=[folder]) as secrets:
        with pytest.raises(SecretUnavailable, match="CLUSTERRA_SECRET_FOLDERS"):
            await secrets.read(f"file:{beside}/{path}")
        with pytest.raises(SecretUnavailable, match="CLUSTERRA_SECRET_FOLDERS"):
            secrets.last(f"file:{beside}/{path}")


async def test_no_reference_leads_out_of_a_folder_by_its_dots(folder: Path) -> None:
    async with Secrets(folders=[folder]) as secrets:
        with pytest.raises(InvalidReference):
            await secrets.read(f"file:{folder}/../other/key")
