"""`sbatch --spool`: the submit is written into the spool first, and delivered from there, at once or later."""

from contextlib import suppress
from typing import TYPE_CHECKING

from clusterra.context import ConfigError
from clusterra.errors import ApiError, ClusterraError

from clusterra_cli.getopt import Words, split
from clusterra_cli.job_script import JobScript
from clusterra_cli.slurm_commands.failures import CommandFailed, Refused
from clusterra_cli.slurm_commands.gateway import Gateway, refusal
from clusterra_cli.slurm_commands.reads.recent_submits import note_submit
from clusterra_cli.slurm_commands.terminal.printing import complain

if TYPE_CHECKING:
    from clusterra_cli.spool.delivery import Outcome


def deliver_spooled(words: Words, job: JobScript, gateway: Gateway) -> str | None:
    """Keep a submit and deliver what waits. Returns its job; None where it waits for the network.

    Raises Refused where it was refused, and CommandFailed where it could not be kept.
    """
    from dataclasses import replace

    from clusterra_cli.spool.delivery import is_away
    from clusterra_cli.spool.folder import Spool
    from clusterra_cli.spool.submits import deliver, keep

    spool = Spool()
    cluster = _named_cluster(words, gateway)
    try:
        target = gateway.target
        entry = keep(spool, replace(target, cluster=cluster or target.cluster), {"script": job.script, "job": job.job})
    except ConfigError as error:
        raise CommandFailed(f"sbatch: error: {error}") from None
    try:
        outcome = deliver(spool, gateway.target, gateway.transport, entry)
    except ClusterraError as error:
        if isinstance(error, ApiError) and not is_away(error):
            # This sign-in will never send it.
            spool.drop(entry)
            raise refusal(error) from None
        why = str(refusal(error)) if is_away(error) else str(error).replace("\n", ": ")
        complain(f"sbatch: spooled as {entry.id}: {why}")
        return None
    if outcome.kind == "refused":
        # Whoever submitted reads it now: there is nothing to keep.
        spool.drop(replace(entry, state="refused"))
        raise refusal(outcome.error) if outcome.error is not None else Refused(outcome.why or "")
    if outcome.job_id is None:
        complain(f"sbatch: spooled as {entry.id}: {outcome.why}")
    else:
        _note(outcome, gateway)
    return outcome.job_id


def _note(outcome: "Outcome", gateway: Gateway) -> None:
    """Remember a delivered job, which is there whatever becomes of this."""
    with suppress(Refused, CommandFailed):
        if outcome.job_id is not None:
            note_submit(gateway, outcome.job_id)


def _named_cluster(words: Words, gateway: Gateway) -> str | None:
    """The cluster of -M, without a question to the gateway. Raises CommandFailed."""
    import os

    given = split(words.last("clusters", os.environ.get("SLURM_CLUSTERS")) or "")
    named = [each for each in dict.fromkeys(given) if each != "all"]
    if len(named) > 1 or (named and gateway.target.cluster not in (None, named[0])):
        raise CommandFailed(
            f"sbatch: error: '{named[-1]}' can't be reached now, or it is an invalid entry for --cluster."
        )
    return named[0] if named else None


def deliver_before(words: Words, gateway: Gateway) -> None:
    """Deliver what waits before a submit that is not spooled. What goes wrong is shown with -v alone."""
    from clusterra_cli.spool.folder import Spool

    try:
        spool = Spool()
        if not spool.exists or not spool.entries("waiting"):
            return
    except ConfigError as error:
        if words.has("verbose"):
            complain(f"sbatch: warning: {error}")
        return
    from clusterra_cli.spool.submits import deliver_beside

    for outcome in deliver_beside(spool, gateway.target, gateway.transport):
        _note(outcome, gateway)
        if words.has("verbose"):
            complain(f"sbatch: {_described(outcome)}")


def _described(outcome: "Outcome") -> str:
    what = f"job {outcome.job_id}" if outcome.job_id else f"{outcome.kind}: {outcome.why}"
    return f"spooled submit {outcome.entry.id}: {what}"
