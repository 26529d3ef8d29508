"""`workflows`: jobs that start after each other. The API calls them runs."""

import json as json_text
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterra_cli import exit_codes
from clusterra_cli.bounded_input import read_bounded
from clusterra_cli.commands.listing_group import listing_group
from clusterra_cli.completion import known_workflows
from clusterra_cli.connection import Cluster, Json, Key, Limit, Quiet, Url, connected, on_cluster
from clusterra_cli.output import Column, Output, moment, note
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client
    from clusterra.models import Run

WorkflowArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORKFLOW", autocompletion=known_workflows, help="A workflow, as `clusterra workflows` lists it."
    ),
]
OVER = frozenset({"completed", "failed", "cancelled"})
MAX_FILE_BYTES = 4 * 1024 * 1024
FIRST_SECONDS, LONGEST_SECONDS, GROWTH = 1.0, 5.0, 1.3


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(workflows, name="workflows")


def list_workflows(
    limit: Limit = 50, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """List your workflows, the newest first."""
    from clusterra.models import Run

    with connected(url, cluster) as client:
        found = list(client.pages(Run, on_cluster("runs"), query={"limit": min(limit, 100)}, limit=limit))
    Output(json, quiet).listed(
        found,
        (Column("WORKFLOW"), Column("NAME"), Column("USER"), Column("STATE"), Column("STEPS"), Column("STARTED")),
        lambda run: (run.run_id, run.run_name, run.user, run.state, _progress(run), moment(run.created_at)),
        lambda run: run.run_id,
    )


workflows = listing_group(list_workflows, "List, start, follow, cancel and resume workflows of several jobs.")


def _progress(run: "Run") -> str:
    done = sum(step.state == "completed" for step in run.steps)
    return f"{done} of {len(run.steps)} completed"


@workflows.command()
def show(
    workflow_id: WorkflowArgument, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Show a workflow with its steps. With --quiet only the ids of its jobs."""
    with connected(url, cluster) as client:
        _show(_read(client, workflow_id), Output(json, quiet))


@workflows.command()
def start(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON with `run_name` and `steps`, as the API takes it; - is stdin.")
    ],
    name: Annotated[str | None, typer.Option("--name", "-n", help="The name, in place of the file's.")] = None,
    key: Key = None,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Follow it until it is over.")] = False,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Start a workflow from a file. It goes on without this command."""
    from clusterra.models import Run

    wanted, output = _document(file), Output(json, quiet)
    if name is not None:
        wanted["run_name"] = name
    with connected(url, cluster) as client:
        run = client.fetch(Run, "POST", on_cluster("runs"), body=wanted, key=key)
        if following:
            if not json:
                note(f"Started workflow {run.run_id}")
            raise typer.Exit(_follow(client, run, output))
    output.one(run, run.run_id, f"Started workflow {run.run_id} with {len(run.steps)} steps")


def _document(file: str) -> dict[str, Any]:
    """The JSON object in a file. Raises WrongUsage."""
    try:
        document = json_text.loads(read_bounded(file, MAX_FILE_BYTES))
    except ValueError as error:
        raise WrongUsage(f"{file} is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise WrongUsage(
            f"{file} is no workflow", 'it looks like {"run_name": "nightly", "steps": [{"step_id": "get", …}]}'
        )
    return document


@workflows.command()
def cancel(
    workflow_id: WorkflowArgument, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Cancel a workflow: its jobs, and the steps that have not been submitted. Completed steps stay."""
    from clusterra.models import Run

    with connected(url, cluster) as client:
        run = client.fetch(Run, "DELETE", on_cluster("runs", workflow_id))
    Output(json, quiet).one(run, run.run_id, f"workflow {run.run_id} is cancelled")


@workflows.command()
def resume(
    workflow_id: WorkflowArgument, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Try the steps of your workflow again that did not complete."""
    from clusterra.models import Run

    with connected(url, cluster) as client:
        run = client.fetch(Run, "POST", f"{on_cluster('runs', workflow_id)}/resume")
    Output(json, quiet).one(run, run.run_id, f"workflow {run.run_id} goes on")


@workflows.command()
def follow(
    workflow_id: WorkflowArgument, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Print each change of a workflow's steps until it is over; end with 0 where it has completed, else with 1.

    With --json a line for each change, and the whole workflow at the end.
    """
    with connected(url, cluster) as client:
        code = _follow(client, _read(client, workflow_id), Output(json, quiet))
    raise typer.Exit(code)


def _read(client: "Client", workflow_id: str) -> "Run":
    from clusterra.models import Run

    return client.fetch(Run, "GET", on_cluster("runs", workflow_id))


def _follow(client: "Client", run: "Run", output: Output) -> int:
    """Print each change until the workflow is over. A gateway that is away is waited for. Returns the exit code."""
    from clusterra.errors import ClusterraError
    from clusterra.http.retrying import is_transient

    known: dict[str, tuple[str, str | None, str]] = {}
    pause = FIRST_SECONDS
    try:
        while True:
            changed = False
            for step in run.steps:
                now = (step.state, step.job_id, step.job_state)
                if known.get(step.step_id) != now:
                    known[step.step_id], changed = now, True
                    _print_step(step, output)
            if run.state in OVER:
                break
            pause = FIRST_SECONDS if changed else min(pause * GROWTH, LONGEST_SECONDS)
            time.sleep(pause)
            try:
                run = _read(client, run.run_id)
            except ClusterraError as error:
                if not is_transient(error):
                    raise
    except KeyboardInterrupt:
        note(f"\nworkflow {run.run_id} goes on; to end it: clusterra workflows cancel {run.run_id}")
        raise
    if output.json:
        output.json_line(run)
    else:
        note(
            f"workflow {run.run_id} has {run.state}"
            if run.state != "cancelled"
            else f"workflow {run.run_id} was cancelled"
        )
    return 0 if run.state == "completed" else exit_codes.FAILED


def _print_step(step: Any, output: Output) -> None:
    if output.json:
        output.json_line({"step": step})
    elif not output.quiet:
        job = f"  job {step.job_id} {step.job_state}".rstrip() if step.job_id else ""
        output.text(f"{step.step_id}  {step.state}{job}  {step.reason}".rstrip().replace("\n", " "))


def _show(run: "Run", output: Output) -> None:
    if output.json:
        output.document(run)
        return
    if output.quiet:
        output.ids(step.job_id for step in run.steps if step.job_id)
        return
    output.fields(
        {
            "workflow": run.run_id,
            "name": run.run_name,
            "user": run.user,
            "state": run.state,
            "started": moment(run.created_at),
        }
    )
    output.table(
        (
            *(Column("STEP"), Column("STATE"), Column("JOB", right=True), Column("JOB STATE")),
            *(Column("AFTER"), Column("TRY", right=True), Column("REASON")),
        ),
        (
            (
                *(step.step_id, step.state, step.job_id, step.job_state),
                *(",".join(step.depends_on), step.attempt, step.reason),
            )
            for step in run.steps
        ),
    )
