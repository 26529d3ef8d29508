"""`templates` and `launch`: jobs from forms."""

import json as json_text
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.completion import known_templates
from clusterra_cli.connection import Cluster, Json, Key, Quiet, Url, connected
from clusterra_cli.output import Column, Output, note, warn
from clusterra_cli.template_values import Confirmed, Inputs, SbatchOptions, Values, template_values

if TYPE_CHECKING:
    from clusterra.models import Launchable


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    for each in (templates, launch):
        command.command()(each)


def templates(
    template_id: Annotated[
        str | None, typer.Argument(autocompletion=known_templates, help="Show the parameters of this one.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """List the templates that can be launched, or show the parameters of one."""
    output = Output(json, quiet)
    with connected(url) as client:
        found = client.templates()
    if template_id is not None:
        one = next((each for each in found if each.id == template_id), None)
        if one is None:
            exit_codes.end(exit_codes.NOT_FOUND, f"there is no template {template_id}")
        output.document(one) if json else _show(output, one)
        return
    output.listed(
        found,
        (Column("TEMPLATE"), Column("KIND"), Column("CATEGORY"), Column("NAME")),
        lambda each: (each.id, each.kind, each.category, each.name),
        lambda each: each.id,
    )


def _show(output: Output, template: "Launchable") -> None:
    output.text(f"{template.name}\n{template.description}")
    output.table(
        (Column("PARAMETER"), Column("TYPE"), Column("DEFAULT"), Column("NEEDED"), Column("DESCRIPTION")),
        (
            (
                *(each.name, each.type, "" if each.default is None else json_text.dumps(each.default)),
                *("yes" if each.required else "", each.description or each.label),
            )
            for each in template.parameters
        ),
    )
    if template.inputs:
        output.table(
            (Column("INPUT"), Column("FORMAT"), Column("NEEDED"), Column("DESCRIPTION")),
            ((each.name, each.format, "yes" if each.required else "", each.description) for each in template.inputs),
        )


def launch(
    template_id: Annotated[
        str, typer.Argument(autocompletion=known_templates, help="The template, as `clusterra templates` lists it.")
    ],
    values: Values = None,
    inputs: Inputs = None,
    options: SbatchOptions = None,
    confirmed: Confirmed = None,
    key: Key = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Submit a job, or a workflow, from a template."""
    given = template_values(values, inputs, options, confirmed)
    with connected(url, cluster) as client:
        launched = client.launch(
            template_id,
            given.params,
            inputs=given.inputs,
            sbatch_override=given.sbatch_override,
            confirmed_usd_per_hour=given.confirmed_usd_per_hour,
            key=key,
        )
    for each in launched.warnings:
        warn(each)
    what = f"batch job {launched.job_id}" if launched.job_id else f"workflow {launched.run_id}"
    Output(json, quiet).one(launched, launched.job_id or launched.run_id or "", f"Submitted {what}")
    # "." is the folder that the job starts in, which the API does not name.
    if launched.output_dir not in (None, "", ".") and not (json or quiet):
        note(f"its results will be in {launched.output_dir}")
