"""What the process that opens files as a user opens, and what it refuses. Becoming a user needs root."""

import os
import socket
from pathlib import Path

import pytest
from clusterra_contracts.rpc.edge_folders import LocalUser
from clusterra_edge_agent.folders.user_process import FolderRefused, UserProcesses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

ADA = LocalUser(uid=20001, gid=20001, groups=(30001,))
SECRET = "not ada's"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    # Nobody but root passes through pytest's own folder: the shared folder is opened before root is given up.
    tmp_path.parent.chmod(0o700)
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def processes(shared: Path) -> UserProcesses:
    return UserProcesses(shared)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text(SECRET)
    return folder


def made(path: Path, content: str = "x", *, uid: int = ADA.uid, gid: int = ADA.gid, mode: int = 0o600) -> Path:
    path.write_text(content)
    os.chown(path, uid, gid)
    path.chmod(mode)
    return path


def opened(processes: UserProcesses, *paths: str, folder: str = "") -> list[str]:
    """What each file has, or why it was not opened."""
    with processes.opened(ADA, "open", folder=folder, paths=paths) as (told, descriptors):
        left = iter(descriptors)
        return [each["detail"] if "detail" in each else os.pread(next(left), 100, 0).decode() for each in told["files"]]


def test_files_are_opened_with_the_rights_of_the_user_and_their_groups(processes: UserProcesses, shared: Path) -> None:
    made(shared / "own")
    made(shared / "of-a-group", uid=20002, gid=30001, mode=0o640)
    made(shared / "of-another-group", uid=20002, gid=30002, mode=0o640)
    made(shared / "of-root", uid=0, gid=0)

    found = opened(processes, "own", "of-a-group", "of-another-group", "of-root", "none")

    assert found == ["x", "x", "Permission denied", "Permission denied", "No such file or directory"]


def test_links_pipes_sockets_and_folders_are_not_opened(processes: UserProcesses, shared: Path, outside: Path) -> None:
    outside.chmod(0o777)
    made(outside / "mine")
    (shared / "link").symlink_to(outside / "mine")
    (shared / "folder-link").symlink_to(outside)
    (shared / "absolute").symlink_to("/")
    os.mkfifo(shared / "pipe", 0o666)
    (shared / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(shared / "socket"))

        found = opened(processes, "link", "folder-link/mine", "absolute/etc/passwd", "pipe", "folder", "socket")

    assert found[0] == "it is a link, and links are not followed"
    assert found[1:3] == ["Not a directory", "Not a directory"]
    assert found[3:5] == ["it is no regular file", "it is no regular file"]
    assert found[5] == "No such device or address"


@given(path=st.lists(st.sampled_from(["..", ".", "", "outside", "shared", "secret", "deep"]), min_size=1).map("/".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_leads_out(processes: UserProcesses, shared: Path, outside: Path, path: str) -> None:
    outside.chmod(0o755)
    (outside / "secret").chmod(0o644)
    (shared / "deep").mkdir(exist_ok=True)

    found = opened(processes, path)

    assert SECRET not in found
    with pytest.raises(FolderRefused):
        processes.ask(ADA, "list", path=f"../{path}", after="", limit=10)


def test_a_folder_that_may_be_passed_but_not_listed_is_no_obstacle(processes: UserProcesses, shared: Path) -> None:
    (shared / "home").mkdir(mode=0o711)
    (shared / "home").chmod(0o711)
    (shared / "home/ada").mkdir()
    os.chown(shared / "home/ada", ADA.uid, ADA.gid)
    made(shared / "home/ada/file")

    assert opened(processes, "file", folder="home/ada") == ["x"]
    with pytest.raises(FolderRefused, match="Permission denied"):
        processes.ask(ADA, "list", path="home", after="", limit=10)


def test_what_is_made_belongs_to_the_user(processes: UserProcesses, shared: Path) -> None:
    names = {"folder": "run/deep", "path": "in/x", "temporary": ".part"}

    with processes.opened(ADA, "create", **names) as (told, (descriptor,)):
        os.pwrite(descriptor, b"content", 0)
    processes.ask(ADA, "commit", **names)

    made_file = shared / "run/deep/in/x"
    assert (told["size"], made_file.read_text(), made_file.stat().st_uid) == (0, "content", ADA.uid)
    assert {(shared / each).stat().st_uid for each in ("run", "run/deep", "run/deep/in")} == {ADA.uid}
    assert [each.name for each in made_file.parent.iterdir()] == ["x"]


def test_nothing_is_made_where_the_user_may_not_or_through_a_link(
    processes: UserProcesses, shared: Path, outside: Path
) -> None:
    outside.chmod(0o777)
    (shared / "link").symlink_to(outside)
    (shared / "root-owned").mkdir(mode=0o755)
    made(shared / "target", uid=0, mode=0o644)
    os.link(shared / "target", shared / ".part")

    for folder, reason in (("link", "Not a directory"), ("root-owned", "Permission denied"), ("", "Permission denied")):
        with pytest.raises(FolderRefused, match=reason):
            processes.ask(ADA, "create", folder=folder, path="x", temporary=".part")

    assert (shared / "target").read_text() == "x"


def test_pages_of_a_folder_have_every_entry_once(processes: UserProcesses, shared: Path) -> None:
    names = [f"f{number:02}" for number in range(23)] + ["ü", "名"]
    for name in names:
        made(shared / name)
    (shared / os.fsdecode(b"\xff")).touch()
    seen: list[str] = []
    unreadable, after = 0, ""

    while after is not None:
        page = processes.ask(ADA, "list", path="", after=after, limit=4)
        seen += [entry["name"] for entry in page["entries"]]
        unreadable += page["unreadable"]
        after = page["after"]

    assert (seen, unreadable) == (sorted(names, key=str.encode), 1)


def test_matches_come_in_pages_with_what_is_no_file_beside_them(processes: UserProcesses, shared: Path) -> None:
    for folder in ("out", "out/b", "private"):
        (shared / folder).mkdir(mode=0o755)
    (shared / "private").chmod(0o700)
    for path in ("out/1.txt", "out/b/2.txt", "out/3.dat", "private/4.txt"):
        made(shared / path)
    (shared / "out/link.txt").symlink_to("1.txt")
    found: list[str] = []
    problems: list[str] = []
    after = ""

    while after is not None:
        page = processes.ask(ADA, "find", folder="", patterns=["**/*.txt"], after=after, limit=2)
        found += [each["path"] for each in page["found"]]
        problems += [each["path"] for each in page["problems"]]
        after = page["after"]

    assert (found, problems) == (["out/1.txt", "out/b/2.txt"], ["out/link.txt"])


def test_the_ids_of_the_system_are_refused(shared: Path) -> None:
    made(shared / "own")
    root = LocalUser.model_construct(uid=0, gid=0, groups=())
    with_root_group = LocalUser.model_construct(uid=20001, gid=20001, groups=(0,))

    for user in (root, with_root_group):
        with pytest.raises(FolderRefused, match="may not open files"):
            UserProcesses(shared).ask(user, "list", path="", after="", limit=1)
