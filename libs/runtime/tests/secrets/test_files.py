"""Secrets from files."""

import os
from pathlib import Path

import pytest
from clusterra_runtime.secrets import files
from clusterra_runtime.secrets.files import MAX_BYTES
from clusterra_runtime.secrets.local import read_binary_secret, read_secret
from clusterra_runtime.secrets.reference import SecretUnavailable


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
    monkeypatch.setattr(files, "_content", lambda _path: pytest.fail("it was read again"))
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
