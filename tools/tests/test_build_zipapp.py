"""The one file: it starts many times at once, and unpacks nowhere that others could write."""

import os
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zipapp_start
from build_zipapp import VERSIONS, archived, start
from zipapp_start import DAY, Unsafe, note_use, unpacked

VERSION = "3.13"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "programs.pyz"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("common/one/__init__.py", "ANSWER = 42\n")
        packed.writestr(f"{VERSION}/one/compiled.py", "")
        packed.writestr("3.12/one/other.py", "")
    return path


def test_the_files_of_a_version_are_unpacked_once(archive: Path, tmp_path: Path) -> None:
    folder = unpacked(archive, tmp_path / "cache", VERSION)
    archive.unlink()

    assert unpacked(archive, tmp_path / "cache", VERSION) == folder
    assert {path.name for path in (folder / "one").glob("*.py")} == {"__init__.py", "compiled.py"}
    assert [*(tmp_path / "cache").iterdir()] == [folder]
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_starts_at_the_same_time_get_the_same_whole_folder(archive: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: unpacked(archive, tmp_path / "cache", VERSION), range(24)))

    (folder,) = folders
    assert (folder / "one" / "__init__.py").read_text() == "ANSWER = 42\n"
    assert [*(tmp_path / "cache").iterdir()] == [folder]


def test_folders_that_nobody_has_used_for_a_month_go_when_another_is_unpacked(archive: Path, tmp_path: Path) -> None:
    cache, month_ago = tmp_path / "cache", time.time() - 31 * DAY
    cache.mkdir(mode=0o700)
    old, filling, used = cache / f"{'a' * 32}-3.12", cache / "filling-abc", cache / f"{'b' * 32}-3.13"
    foreign, link = cache / "photos", cache / f"{'c' * 32}-3.13"
    for folder in (old, filling, used, foreign):
        (folder / "one").mkdir(parents=True)
        os.utime(folder, (month_ago, month_ago))
    note_use(used)
    link.symlink_to(foreign)
    os.utime(link, (month_ago, month_ago), follow_symlinks=False)

    folder = unpacked(archive, cache, VERSION)

    assert {*cache.iterdir()} == {used, foreign, link, folder}
    assert (foreign / "one").is_dir()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_refused(archive: Path, tmp_path: Path, mode: int) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(mode)

    with pytest.raises(Unsafe):
        unpacked(archive, cache, VERSION)
    assert [*cache.iterdir()] == []


def test_a_link_in_the_place_of_the_folder_is_refused(archive: Path, tmp_path: Path) -> None:
    elsewhere, cache = tmp_path / "elsewhere", tmp_path / "cache"
    elsewhere.mkdir()
    cache.mkdir(mode=0o700)
    (cache / f"{zipapp_start.HASH}-{VERSION}").symlink_to(elsewhere)

    with pytest.raises(Unsafe):
        unpacked(archive, cache, VERSION)
    assert [*elsewhere.iterdir()] == []
    assert len([*cache.iterdir()]) == 1


def test_files_that_all_versions_have_are_packed_once_and_decide_the_hash() -> None:
    by_version = {each: {"same.py": b"1", "compiled.so": each.encode()} for each in VERSIONS}

    files = archived(by_version)

    assert set(files) == {"common/same.py", *(f"{each}/compiled.so" for each in VERSIONS)}
    assert start(files) == start(dict(files))
    assert start(files) != start({**files, "common/same.py": b"2"})


def test_another_python_is_told_which_ones_there_are(tmp_path: Path) -> None:
    text = start({}).decode().replace(" ".join(VERSIONS), "2.7")
    (tmp_path / "__main__.py").write_text(text)

    ran = subprocess.run([sys.executable, "-I", str(tmp_path / "__main__.py")], capture_output=True, text=True)

    assert ran.returncode == 1
    assert "this file is for Python 2.7" in ran.stderr
