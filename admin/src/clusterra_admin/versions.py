"""`clusterra-admin versions`: which versions run, and whether their contracts go together."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from clusterra_admin.terminal import DIFFERS, Json, Timeout, fail, failing_on, log_to_stderr, print_json

if TYPE_CHECKING:
    from clusterra_admin.running import Row

TIMEOUT_SECONDS = 20.0


def versions(timeout: Timeout = TIMEOUT_SECONDS, json: Json = False) -> None:
    """Print each running replica: service, instance, version, contracts, and whether it goes with all others.

    The exit code is 2 if replicas are incompatible, or if a record of one cannot be read.
    """
    rows = _rows(timeout)
    if json:
        print_json([asdict(row) for row in rows])
    else:
        typer.echo(_table(rows))
    if not all(row.compatible for row in rows):
        raise typer.Exit(DIFFERS)


def _rows(timeout: float) -> "list[Row]":
    from clusterra_runtime.nats import bus
    from clusterra_runtime.settings import ServiceSettings
    from pydantic import ValidationError

    from clusterra_admin.nats_connection import NatsUnreachable, connected
    from clusterra_admin.running import running

    log_to_stderr()
    with failing_on(ValidationError):
        settings = ServiceSettings()

    async def read() -> "list[Row]":
        async with asyncio.timeout(timeout):
            async with connected(settings) as client:
                return await running(client)

    try:
        with failing_on(NatsUnreachable):
            return asyncio.run(read())
    except TimeoutError:
        fail(
            f"{settings.nats_url} did not answer within {timeout:g} s",
            "check CLUSTERRA_NATS_URL and CLUSTERRA_NATS_CREDENTIALS_FILE, or raise --timeout",
        )
    except bus.BusUnavailable as error:
        fail(f"the versions cannot be read: {error}", "run `clusterra-admin topology apply`")


def _table(rows: "list[Row]") -> str:
    cells = [("SERVICE", "INSTANCE", "VERSION", "CONTRACTS", "COMPATIBLE")]
    cells += [(row.service, row.instance, row.version, row.contracts, _verdict(row)) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    lines = [
        "  ".join([*(f"{text:{width}}" for text, width in zip(line, widths, strict=False)), line[4]]) for line in cells
    ]
    return "\n".join(lines)


def _verdict(row: "Row") -> str:
    if row.compatible is None:
        return "unreadable record"
    if row.compatible:
        return "yes"
    more = f" and {len(row.with_whom) - 3} more" if len(row.with_whom) > 3 else ""
    return f"no, not with {', '.join(row.with_whom[:3])}{more}"
