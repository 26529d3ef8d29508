"""`schedules`: templates that the gateway submits again and again, at the times of a cron expression."""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.commands.listing_group import listing_group
from clusterra_cli.completion import known_schedules, known_templates
from clusterra_cli.connection import Cluster, Json, Quiet, Url, connected, joined
from clusterra_cli.output import Column, Output, moment
from clusterra_cli.template_values import Confirmed, Inputs, SbatchOptions, Values, template_values
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra.models import Schedule

SCHEDULES = "/v1/schedules"
ScheduleArgument = Annotated[
    str,
    typer.Argument(
        metavar="SCHEDULE", autocompletion=known_schedules, help="A schedule, as `clusterra schedules` lists it."
    ),
]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(schedules, name="schedules")


def list_schedules(json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List your schedules; admins see those of everybody."""
    from clusterra.models import Schedule

    with connected(url) as client:
        found = list(client.pages(Schedule, SCHEDULES))
    Output(json, quiet).listed(
        found,
        (
            *(Column("SCHEDULE"), Column("NAME"), Column("TEMPLATE"), Column("CRON, UTC")),
            *(Column("NEXT"), Column("LAST"), Column("OUTCOME")),
        ),
        lambda each: (
            *(each.id, each.name, each.template_id, each.cron),
            *(moment(each.next_tick), moment(each.last_tick), each.last_outcome),
        ),
        lambda each: each.id,
    )


schedules = listing_group(list_schedules, "List, create and delete schedules of templates.")


@schedules.command()
def show(schedule_id: ScheduleArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Show a schedule: its values, its next time, and what became of the last one."""
    from clusterra.models import Schedule

    with connected(url) as client:
        found = client.fetch(Schedule, "GET", f"{SCHEDULES}/{joined(schedule_id)}")
    _show(found, Output(json, quiet))


@schedules.command()
def create(
    template_id: Annotated[
        str, typer.Argument(autocompletion=known_templates, help="The template, as `clusterra templates` lists it.")
    ],
    name: Annotated[str, typer.Option("--name", "-n", help="The name of the schedule.")],
    cron: Annotated[
        str | None,
        typer.Option(help="When, in UTC: '30 2 * * 1-5' is 02:30 on weekdays. By default the template's own times."),
    ] = None,
    missed: Annotated[
        str, typer.Option(help="What to do about missed times: `skip` them, or submit the `last` one late.")
    ] = "skip",
    values: Values = None,
    inputs: Inputs = None,
    options: SbatchOptions = None,
    confirmed: Confirmed = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Submit a template again and again, as you, at the times of a cron expression."""
    from clusterra.models import Schedule

    if missed not in ("skip", "last"):
        raise WrongUsage(f"--missed {missed}: it is skip or last")
    with connected(url, cluster) as client:
        body = {
            "name": name,
            "template_id": template_id,
            "cron": cron,
            "missed": missed,
            "cluster_id": client.cluster,
            **template_values(values, inputs, options, confirmed).body,
        }
        given = {field: each for field, each in body.items() if each is not None}
        created = client.fetch(Schedule, "POST", SCHEDULES, body=given)
    text = f"schedule {created.id} submits {created.template_id} next at {moment(created.next_tick)}"
    Output(json, quiet).one(created, created.id, text)


@schedules.command()
def delete(schedule_id: ScheduleArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Delete a schedule. What it has submitted goes on."""
    with connected(url) as client:
        client.request("DELETE", f"{SCHEDULES}/{joined(schedule_id)}")
    Output(json, quiet).done(schedule_id, f"schedule {schedule_id} is deleted", outcome="deleted")


def _show(schedule: "Schedule", output: Output) -> None:
    given = {**schedule.params, **schedule.inputs}
    submitted = schedule.last_job and f"job {schedule.last_job}"
    fields = {
        "schedule": schedule.id,
        "name": schedule.name,
        "template": schedule.template_id,
        "cluster": schedule.cluster_id,
        "times, UTC": schedule.cron,
        "missed times": schedule.missed,
        "values": ", ".join(f"{name}={value}" for name, value in given.items()),
        "options": ", ".join(f"--{name}={value}" for name, value in schedule.sbatch_override.items()),
        "created": moment(schedule.created_at),
        "next": moment(schedule.next_tick),
        "last": moment(schedule.last_tick),
        "outcome": schedule.last_outcome,
        "submitted then": submitted or (schedule.last_run and f"workflow {schedule.last_run}"),
    }
    output.one(schedule, schedule.id, fields)
