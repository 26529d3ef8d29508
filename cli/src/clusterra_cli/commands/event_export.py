"""`events export`: all archived events of a range, as JSON lines or as a Parquet file.

Pages are read one after the other into FILE.part, and FILE.state says how far they are. So an export that is
interrupted goes on when it is repeated, and FILE is there only when it is whole.
"""

import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clusterra_cli.commands.jobs import point_in_time
from clusterra_cli.connection import Cluster, Url, connected
from clusterra_cli.output import note
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client

PAGE_EVENTS = 500
NOTE_EVENTS = 10_000
"""After so many events the progress is told again."""
Format = Literal["jsonl", "parquet"]


def export(
    kinds: Annotated[str, typer.Option("--kind", "-k", help="Only these kinds: job.failed,worker.*, or audit.")] = "",
    since: Annotated[str | None, typer.Option(help="Only since then: 2h, 3d or a date.")] = None,
    until: Annotated[str | None, typer.Option(help="Only before then.")] = None,
    form: Annotated[Format, typer.Option("--format", help="JSON lines, or Parquet.")] = "jsonl",
    file: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is stdout, for JSON lines alone.")
    ] = "-",
    all_clusters: Annotated[bool, typer.Option("--all-clusters", help="Of the whole workspace, for admins.")] = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Export the archived events of a range, the oldest first.

    An export that is interrupted goes on when the same command is run again. FILE appears when it is whole. Parquet
    needs pyarrow: pip install 'clusterra-cli[parquet]'.
    """
    query = {"limit": str(PAGE_EVENTS)}
    if kinds:
        query["kind"] = kinds
    for name, moment in (("after", since), ("before", until)):
        if moment is not None:
            query[name] = point_in_time(moment).isoformat()
    path = "/v1/events" if all_clusters else "/v1/clusters/{cluster}/events"
    if form == "parquet":
        if file == "-":
            raise WrongUsage("a Parquet file cannot be written to stdout", "--output events.parquet")
        _check_pyarrow()
    with connected(url, cluster) as client:
        if file == "-":
            for lines, _, _ in _pages(client, path, query):
                sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
            return
        given = {"format": form, "path": path, "kinds": kinds, "since": since, "until": until, "cluster": cluster}
        count = _to_file(client, path, query, Path(file), given)
    note(f"{file} has {count} events")


def _to_file(client: "Client", path: str, query: dict[str, str], file: Path, given: dict[str, Any]) -> int:
    """Write the pages to a file, from where an earlier attempt was. Returns the number of events."""
    part, state = file.with_name(f"{file.name}.part"), file.with_name(f"{file.name}.state")
    known = _known(state, part, given)
    if known["events"]:
        note(f"goes on after {known['events']} events")
    begun = query = query | known["query"]
    with part.open("r+b" if known["events"] else "wb") as target:
        target.truncate(known["bytes"])
        target.seek(known["bytes"])
        count = told = int(known["events"])
        if known["cursor"] is not None:
            query = {**query, "cursor": known["cursor"]}
        pages = iter(()) if known["done"] else _pages(client, path, query)
        for lines, events, cursor in pages:
            target.write(lines)
            target.flush()
            count += events
            kept = {"given": given, "query": begun, "cursor": cursor, "events": count, "bytes": target.tell()}
            _keep(state, {**kept, "done": cursor is None})
            if count - told >= NOTE_EVENTS:
                told = count
                note(f"{count} events")
        os.fsync(target.fileno())
    if given["format"] == "parquet":
        written = file.with_name(f"{file.name}.tmp")
        _parquet(part, written)
        written.replace(file)
        part.unlink()
    else:
        part.replace(file)
    state.unlink(missing_ok=True)
    return count


def _pages(client: "Client", path: str, query: dict[str, str]) -> Iterator[tuple[bytes, int, str | None]]:
    """The pages as lines, the number of their events, and the cursor of the next one."""
    told = False
    while True:
        page = client.request("GET", path, query=query).json
        if not told and (kept := page.get("kept_from")) and _begins_before(query.get("after"), kept):
            note(f"of events before {kept} some kinds are no longer kept")
        told = True
        lines = b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in page["events"])
        yield lines, len(page["events"]), page["cursor"]
        if page["cursor"] is None:
            return
        query = {**query, "cursor": page["cursor"]}


def _begins_before(after: str | None, moment: str) -> bool:
    from datetime import datetime

    return after is None or datetime.fromisoformat(after) < datetime.fromisoformat(moment)


def _known(state: Path, part: Path, given: dict[str, Any]) -> dict[str, Any]:
    """How far an earlier attempt with the same options came."""
    try:
        found: dict[str, Any] = json.loads(state.read_text())
        if found["given"] == given and part.stat().st_size >= found["bytes"]:
            return found
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {"query": {}, "cursor": None, "events": 0, "bytes": 0, "done": False}


def _keep(state: Path, content: dict[str, Any]) -> None:
    written = state.with_name(f"{state.name}.tmp")
    written.write_text(json.dumps(content))
    written.replace(state)


def _check_pyarrow() -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise WrongUsage("Parquet needs pyarrow, which is not installed", "pip install 'clusterra-cli[parquet]'")


BATCH_EVENTS = 10_000
"""The events of one row group: as many are in memory at once."""


def _parquet(lines: Path, file: Path) -> None:
    """Convert JSON lines. `data` stays JSON: its fields depend on the kind, and later releases add some."""
    from importlib import import_module

    # Not installed with the command, so that nothing knows its types.
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    text = ("id", "type", "kind", "subject", "source")
    schema = pyarrow.schema(
        [
            *((name, pyarrow.string()) for name in text),
            ("time", pyarrow.timestamp("us", tz="UTC")),
            ("data", pyarrow.string()),
        ]
    )
    with lines.open("rb") as source, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while rows := [_row(line) for line in islice(source, BATCH_EVENTS)]:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))


def _row(line: bytes) -> dict[str, Any]:
    from datetime import datetime

    event = json.loads(line)
    return {
        **{name: event[name] for name in ("id", "type", "subject", "source")},
        "kind": event["data"]["kind"],
        "time": datetime.fromisoformat(event["time"]),
        "data": json.dumps(event["data"], separators=(",", ":")),
    }
