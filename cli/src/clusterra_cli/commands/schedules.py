"""`schedules`: templates that the gateway submits again and again, at the times of a cron expression."""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.commands.listing_group import listing_group
from clusterra_cli.completion import known_schedules, known_templates
from clusterra_cli.connection import Cluster, Json, Key, Quiet, Url, connected, joined
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
            *("paused" if each.paused else moment(each.next_tick), moment(each.last_tick), each.last_outcome),
        ),
        lambda each: each.id,
    )


schedules = listing_group(list_schedules, "List, create, change, run and delete schedules of templates.")


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

    _check_missed(missed)
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
    Output(json, quiet).one(created, created.id, _next(created))


@schedules.command()
def pause(schedule_id: ScheduleArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Pause a schedule: it submits nothing until it is resumed. What it has submitted goes on."""
    with connected(url) as client:
        changed = client.change_schedule(schedule_id, paused=True)
    Output(json, quiet).one(changed, changed.id, f"schedule {changed.id} is paused")


@schedules.command()
def resume(schedule_id: ScheduleArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Resume a paused schedule from its next time on. Times that came meanwhile are not made up for."""
    with connected(url) as client:
        changed = client.change_schedule(schedule_id, paused=False)
    Output(json, quiet).one(changed, changed.id, _next(changed))


@schedules.command()
def run(
    schedule_id: ScheduleArgument, key: Key = None, json: Json = False, quiet: Quiet = False, url: Url = None
) -> None:
    """Submit the template of one of your schedules once, now, even while it is paused.

    Its next time does not change.
    """
    with connected(url) as client:
        after = client.run_schedule(schedule_id, key=key)
    made = f"job {after.last_job}" if after.last_run is None else f"workflow {after.last_run}"
    Output(json, quiet).one(after, after.last_job or after.last_run or after.id, f"submitted as {made}")


@schedules.command()
def edit(
    schedule_id: ScheduleArgument,
    name: Annotated[str | None, typer.Option("--name", "-n", help="Another name.")] = None,
    cron: Annotated[
        str | None, typer.Option(help="Other times, in UTC: its next time is the first one to come.")
    ] = None,
    missed: Annotated[str | None, typer.Option(help="`skip` missed times, or submit the `last` one late.")] = None,
    values: Values = None,
    inputs: Inputs = None,
    options: SbatchOptions = None,
    confirmed: Confirmed = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Change one of your schedules.

    What is not given does not change; `--set` and `--input` change only the values that they name.
    """
    from clusterra.models import Schedule

    if missed is not None:
        _check_missed(missed)
    given = {"name": name, "cron": cron, "missed": missed, **template_values(values, inputs, options, confirmed).body}
    changes = {field: each for field, each in given.items() if each not in (None, {})}
    if not changes:
        raise WrongUsage("say what to change, such as --cron '30 2 * * 1-5' or --set size=3")
    with connected(url) as client:
        present = client.fetch(Schedule, "GET", f"{SCHEDULES}/{joined(schedule_id)}")
        whole = {
            field: {**getattr(present, field), **each} if isinstance(each, dict) else each
            for field, each in changes.items()
        }
        changed = client.change_schedule(schedule_id, **whole)
    Output(json, quiet).one(changed, changed.id, _next(changed))


@schedules.command()
def delete(schedule_id: ScheduleArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Delete a schedule. What it has submitted goes on."""
    with connected(url) as client:
        client.request("DELETE", f"{SCHEDULES}/{joined(schedule_id)}")
    Output(json, quiet).done(schedule_id, f"schedule {schedule_id} is deleted", outcome="deleted")


def _check_missed(missed: str) -> None:
    if missed not in ("skip", "last"):
        raise WrongUsage(f"--missed {missed}: it is skip or last")


def _next(schedule: "Schedule") -> str:
    if schedule.paused:
        return f"schedule {schedule.id} is changed, and paused"
    return f"schedule {schedule.id} submits {schedule.template_id} next at {moment(schedule.next_tick)}"


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
        "next": "paused" if schedule.paused else moment(schedule.next_tick),
        "last": moment(schedule.last_tick),
        "outcome": schedule.last_outcome,
        "submitted then": submitted or (schedule.last_run and f"workflow {schedule.last_run}"),
    }
    output.one(schedule, schedule.id, fields)
