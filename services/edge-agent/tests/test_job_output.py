"""Which files are read as job output. Creating files of other users needs root."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from clusterra_contracts.rpc.edge import ReadLog
from clusterra_edge_agent.logs import job_output
from clusterra_edge_agent.logs.job_output import NoSuchOutput, OutputLocation, SearchLimit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

ME = os.getuid()
STRANGER = ME + 1
needs_root = pytest.mark.skipif(ME != 0, reason="only root can make files of another user")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def text(shared: Path, job_id: str = "7", uid: int = ME) -> str:
    place = job_output.find(shared, job_id, "stdout", uid)
    return job_output.read(shared, place, uid, 0, 1000)[0].decode()


def test_locations_are_searched_in_order(shared: Path) -> None:
    (shared / "alice").mkdir()
    places = [Path("job_7.out"), Path("slurm-7.out"), Path("alice/job_7.out"), Path("alice/slurm-7.out")]
    for place in reversed(places):
        (shared / place).write_text(str(place))
        assert text(shared) == str(place)

    (shared / "slurm-7.err").write_text("error")

    assert job_output.find(shared, "7", "stderr", ME) == OutputLocation((), "slurm-7.err")


def test_an_array_task_has_a_file_of_its_own(shared: Path) -> None:
    (shared / "job_7_3.out").write_text("task")
    assert text(shared, "7_3") == "task"
    with pytest.raises(NoSuchOutput):
        text(shared, "7")


def test_deeper_subfolders_are_not_searched(shared: Path) -> None:
    (shared / "a" / "b").mkdir(parents=True)
    (shared / "a" / "b" / "job_7.out").write_text("deep")
    with pytest.raises(NoSuchOutput):
        text(shared)


def test_a_look_up_lists_a_limited_number_of_entries(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_output, "MAX_ENTRIES", 20)
    for number in range(20):
        (shared / f"a{number:02}").mkdir()
    with pytest.raises(NoSuchOutput):
        text(shared)

    (shared / "z").mkdir()
    with pytest.raises(SearchLimit):
        text(shared)

    (shared / "slurm-7.out").write_text("found")
    assert text(shared) == "found"


def test_a_look_up_takes_a_limited_time(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_output, "FIND_SECONDS", -1.0)
    (shared / "alice").mkdir()
    (shared / "alice" / "job_7.out").write_text("deep")
    with pytest.raises(SearchLimit):
        text(shared)

    (shared / "job_7.out").write_text("found")
    assert text(shared) == "found"


@needs_root
def test_files_of_other_users_are_skipped(shared: Path) -> None:
    (shared / "alice").mkdir()
    (shared / "job_7.out").write_text("planted")
    os.chown(shared / "job_7.out", STRANGER, STRANGER)

    with pytest.raises(NoSuchOutput):
        text(shared)

    (shared / "alice" / "job_7.out").write_text("mine")
    assert text(shared) == "mine"
    assert text(shared, uid=STRANGER) == "planted"


def plant_link(path: Path) -> None:
    secret = path.parent.parent / "secret"
    secret.write_text("secret")
    path.symlink_to(secret)


def plant_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize("plant", [plant_link, plant_socket, os.mkfifo, os.mkdir, lambda path: path.symlink_to(path)])
def test_only_regular_files_are_read_and_nothing_blocks(shared: Path, plant: Callable[[Path], None]) -> None:
    plant(shared / "job_7.out")
    with pytest.raises(NoSuchOutput):
        text(shared)
    (shared / "slurm-7.out").write_text("real")
    assert text(shared) == "real"


def test_links_to_folders_are_not_followed(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "job_7.out").write_text("secret")
    (shared / "link").symlink_to(tmp_path / "elsewhere")

    (shared / "up").symlink_to("..")

    with pytest.raises(NoSuchOutput):
        text(shared)
    with pytest.raises(NoSuchOutput):
        job_output.read(shared, OutputLocation(("link",), "job_7.out"), ME, 0, 10)


def test_an_output_is_read_where_slurm_says_it_is(shared: Path) -> None:
    (shared / "home" / "ada" / "runs").mkdir(parents=True)
    (shared / "home" / "ada" / "runs" / "first.log").write_text("deep")

    place = job_output.located(shared, "home/ada/runs/first.log", ME)

    assert job_output.read(shared, place, ME, 0, 10) == (b"deep", 4)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../secret",
        "a/../../secret",
        "a/./b",
        "a//b",
        "link/secret",
        "a\0b",
        "a/" * 70 + "b",
        "x" * 300,
    ],
)
def test_no_path_leads_out_of_the_shared_folder(tmp_path: Path, shared: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (shared / "a").mkdir()
    (shared / "a" / "b").write_text("mine")
    (shared / "link").symlink_to(tmp_path)
    with pytest.raises(NoSuchOutput):
        job_output.located(shared, path, ME)


@needs_root
def test_the_file_of_another_user_is_no_output(shared: Path) -> None:
    (shared / "out").write_text("planted")
    os.chown(shared / "out", STRANGER, STRANGER)
    with pytest.raises(NoSuchOutput):
        job_output.located(shared, "out", ME)


def test_a_file_replaced_by_a_link_is_not_found(shared: Path) -> None:
    (shared / "job_7.out").write_text("mine")
    place = job_output.find(shared, "7", "stdout", ME)
    (shared / "job_7.out").unlink()
    plant_link(shared / "job_7.out")
    with pytest.raises(NoSuchOutput):
        job_output.read(shared, place, ME, 0, 10)


def test_a_missing_shared_folder_is_an_os_error(shared: Path) -> None:
    with pytest.raises(FileNotFoundError):
        text(shared / "unmounted")


TRAVERSALS = [
    *("../../etc/passwd", "..", ".", "", "/", "/etc/passwd", "7/../8", "..\\7", "7\\..\\8", "7\n", "7\0", "7 ", " 7"),
    *("%2e%2e%2f7", "7_", "_7", "7_8_9", "7_-1", "-1", "0", "07", "+7", "7.0", "7e1", "٧", "７", "*", ">", "7*", "a"),
    *("7" * 11, "1_" + "2" * 8, "~root", "$HOME", "{7}", "job_7", "7.out"),
]


@pytest.mark.parametrize("job_id", TRAVERSALS)
def test_job_ids_that_could_escape_the_folder_are_rejected(job_id: str) -> None:
    with pytest.raises(ValidationError):
        ReadLog(job_id=job_id, uid=ME)


@given(st.text())
def test_valid_job_ids_are_digits_with_at_most_one_underscore(job_id: str) -> None:
    try:
        request = ReadLog(job_id=job_id, uid=ME)
    except ValidationError:
        return
    assert request.job_id.replace("_", "", 1).isascii()
    assert request.job_id.replace("_", "", 1).isdigit()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60), offset=st.integers(0, 80) | st.just(2**70), limit=st.integers(1, 80))
def test_reads_any_part_of_the_file_and_nothing_beyond_its_end(
    shared: Path, content: bytes, offset: int, limit: int
) -> None:
    (shared / "job_7.out").write_bytes(content)
    data, size = job_output.read(shared, OutputLocation((), "job_7.out"), ME, offset, limit)
    assert (data, size) == (content[offset : offset + limit], len(content))
