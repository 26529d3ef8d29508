"""`clusterra events export` as a process, with a real gateway and a stand-in for the archive."""

import json
from pathlib import Path

import pytest
from clusterra_contracts.events import NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from command_line import CommandLine
from gateway_world import World
from people_world import make_token

REF = ClusterRef(tenant="acme", cluster="main")
COUNT = 1203


@pytest.fixture
async def boss(world: World, command: CommandLine) -> CommandLine:
    """The command of an admin whose cluster has many events."""
    events = world.acme.events
    events.archived[:] = [
        event_of("proxy", REF, NodeFact(kind="node.down", node=f"n{number}"), version="1", time=now())
        for number in range(COUNT)
    ]
    events.history_fails_after = None
    events.histories.clear()
    token = await make_token(await world.login("boss@acme.example"))
    return command.having(CLUSTERRA_TOKEN=token["token"])


def subjects(text: str) -> list[str]:
    return [json.loads(line)["subject"] for line in text.splitlines()]


ALL = [f"n{number}" for number in range(COUNT)]


async def test_the_file_and_stdout_have_every_event(boss: CommandLine, world: World, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"

    written = await boss("events", "export", "--kind=node.*", "--since=2026-01-01", "-o", str(file))
    printed = await boss("events", "export")
    of_all = await boss("events", "export", "--all-clusters")

    assert (written.code, printed.code, of_all.code) == (0, 0, 0), (written, printed, of_all)
    assert subjects(file.read_text()) == subjects(printed.out) == subjects(of_all.out) == ALL
    assert f"has {COUNT} events" in written.err
    assert [each.name for each in tmp_path.iterdir()] == ["events.jsonl"]
    assert (world.acme.events.histories[0].kinds, world.acme.events.histories[0].newest_first) == (("node.*",), False)
    assert world.acme.events.tenant_histories


async def test_an_export_that_is_interrupted_goes_on(boss: CommandLine, world: World, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("of yesterday\n")
    world.acme.events.history_fails_after = 2

    failed = await boss("events", "export", "--since=3d", "-o", str(file))
    before = file.read_text()
    part = file.with_name("events.jsonl.part")
    with part.open("a") as half:
        half.write('{"half a line')  # as after a power failure
    world.acme.events.history_fails_after = None
    asked = len(world.acme.events.histories)
    done = await boss("events", "export", "--since=3d", "-o", str(file))

    assert failed.code == 1, failed
    assert before == "of yesterday\n", "the old file stays until the new one is whole"
    assert done.code == 0, done
    assert "goes on after 1000 events" in done.err
    assert subjects(file.read_text()) == ALL
    assert len(world.acme.events.histories) == asked + 1
    assert [each.name for each in tmp_path.iterdir()] == ["events.jsonl"]


async def test_another_range_begins_anew(boss: CommandLine, world: World, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    world.acme.events.history_fails_after = 2
    await boss("events", "export", "-o", str(file))
    world.acme.events.history_fails_after = None

    done = await boss("events", "export", "--kind=node.down", "-o", str(file))

    assert "goes on" not in done.err
    assert subjects(file.read_text()) == ALL


async def test_parquet_has_every_event(boss: CommandLine, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: 100 MB for one command")
    file = tmp_path / "events.parquet"

    done = await boss("events", "export", "--format=parquet", "-o", str(file))
    table = pyarrow.read_table(file)

    assert done.code == 0, done
    assert table.column("subject").to_pylist() == ALL
    assert str(table.schema.field("time").type) == "timestamp[us, tz=UTC]"
    assert json.loads(table.column("data")[0].as_py())["kind"] == "node.down"
    assert [each.name for each in tmp_path.iterdir()] == ["events.parquet"]


async def test_parquet_without_its_library_or_a_file_is_refused_at_once(boss: CommandLine, world: World) -> None:
    done = await boss("events", "export", "--format=parquet")

    assert done.code == 2
    assert world.acme.events.histories == []
