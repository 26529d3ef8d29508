"""`clusterra-admin doctor`."""

import asyncio
from typing import Annotated

import typer

from clusterra_admin.terminal import Json, failing_on, log_to_stderr

TIMEOUT_SECONDS = 60.0

IgnoreWarnings = Annotated[bool, typer.Option("--ignore-warnings", help="Exit with 0 when there are only warnings.")]
Every = Annotated[bool, typer.Option("--all", help="List everything that is ok, however much of it there is.")]
Seconds = Annotated[
    float, typer.Option("--timeout", min=1.0, max=3600.0, help="Seconds for all checks together; they run in parallel.")
]


def doctor(
    json: Json = False,
    timeout: Seconds = TIMEOUT_SECONDS,
    every: Every = False,
    ignore_warnings: IgnoreWarnings = False,
) -> None:
    """Check NATS, the tables, the issuer, the services, each cluster's Slurm and each edge, and say what to do.

    It runs inside an installation, with the environment of a service and NATS credentials of an operator, and changes
    nothing. Exit codes: 0 all is ok, 1 there are warnings or the settings are wrong, 2 there are failures.
    """
    from pydantic import ValidationError

    from clusterra_admin.doctor.examination import examine
    from clusterra_admin.doctor.output import lines
    from clusterra_admin.doctor.settings import DoctorSettings

    log_to_stderr()
    with failing_on(ValidationError):
        settings = DoctorSettings()
    report = asyncio.run(examine(settings, timeout))
    if json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        for line in lines(report, every=every):
            typer.echo(line)
    code = report.exit_code
    raise typer.Exit(0 if ignore_warnings and code == 1 else code)
