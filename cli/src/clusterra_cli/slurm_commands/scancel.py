"""`scancel`: cancels jobs, or sends them a signal."""

from collections.abc import Sequence
from urllib.parse import quote

from clusterra_cli.getopt import Words, options, split
from clusterra_cli.slurm_commands.failures import INVALID_JOB, CommandFailed, NotKnown, Refused
from clusterra_cli.slurm_commands.fields.job_values import Job
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation import states
from clusterra_cli.slurm_commands.own_clusters import chosen_clusters
from clusterra_cli.slurm_commands.reads.queue import JOB_ID, Queue
from clusterra_cli.slurm_commands.records import count
from clusterra_cli.slurm_commands.terminal.command_lines import asked_about, read
from clusterra_cli.slurm_commands.terminal.local_user_names import local_user_names, with_own_name
from clusterra_cli.slurm_commands.terminal.printing import complain

OPTIONS = options(
    "scancel",
    none="batch:b ctld cron:c full:f hurry:H interactive:i me quiet:Q verbose:v version:V help usage admin-comment",
    required="account:A clusters:M name:n jobname nodelist:w partition:p qos:q reservation:R signal:s state:t user:u"
    " wckey",
    same={"jobname": "name"},
    unsupported="nodelist cron hurry interactive admin-comment",
)
_FILTERS = ("account", "name", "partition", "qos", "reservation", "state", "user", "wckey", "me")
MAX_SELECTION = 400
"""The most characters of the tasks that one request names."""
_TEXTS = {
    "account": "account",
    "name": "name",
    "partition": "partition",
    "qos": "qos",
    "reservation": "resv_name",
    "wckey": "wckey",
}
_NUMBERS = {"1": "HUP", "2": "INT", "3": "QUIT", "9": "KILL", "10": "USR1", "12": "USR2", "14": "ALRM", "15": "TERM"}
_NUMBERS |= {"18": "CONT", "19": "STOP", "20": "TSTP", "21": "TTIN", "22": "TTOU", "23": "URG"}


def main(arguments: Sequence[str]) -> int:
    """Cancel the jobs that are named or that filters find. Raises CommandFailed."""
    words = read(OPTIONS, arguments)
    if asked_about(OPTIONS, words):
        return 0
    ids = [each for word in words.others for each in split(word)]
    for each in ids:
        if JOB_ID.fullmatch(each.partition(".")[0]) is None:
            raise CommandFailed(f"scancel: error: Invalid job id {each}")
        if "." in each:
            raise CommandFailed("scancel: error: steps cannot be cancelled over HTTP: cancel the job, or signal it")
    filtered = words.has(*_FILTERS)
    if not ids and not filtered:
        raise CommandFailed("scancel: error: No job identification provided")
    gateway = Gateway()
    chosen_clusters("scancel", words, gateway)
    cancel = _Cancel(gateway, words, strict=filtered or words.has("signal"))
    try:
        return cancel.all(_found(words, ids, Queue(gateway)) if filtered else ids)
    except Refused as error:
        raise CommandFailed(f"scancel: error: {error}") from None


class _Cancel:
    """Cancels or signals jobs one after the other. `strict`: whether a job that is not known is a failure."""

    def __init__(self, gateway: Gateway, words: Words, *, strict: bool) -> None:
        self._gateway = gateway
        self._signal = _signal(words.last("signal"))
        self._batch = words.has("batch")
        self._verbose = words.has("verbose")
        self._quiet = words.has("quiet")
        self._strict = strict

    def all(self, ids: Sequence[str]) -> int:
        """The exit code: that of the last failure, 0 where there is none."""
        code = 0
        for job_id in ids:
            if self._verbose:
                what = f"Signal {self._signal} to batch job" if self._signal else "Terminating job"
                complain(f"scancel: {what} {job_id}")
            try:
                self._one(job_id)
            except Refused as error:
                absent = isinstance(error, NotKnown) or error.number in (2017, 2021)
                if self._verbose or ((self._strict or not absent) and not self._quiet):
                    why = INVALID_JOB if isinstance(error, NotKnown) else error
                    complain(f"scancel: error: Kill job error on job id {job_id}: {why}")
                if self._strict or not absent:
                    code = 1
        return code

    def _one(self, job_id: str) -> None:
        path = quote(job_id, safe="")
        if self._signal is None:
            self._gateway.jobs_api("DELETE", path)
        else:
            self._gateway.jobs_api("POST", f"{path}/signal", {"signal": self._signal, "batch_only": self._batch})


def _signal(given: str | None) -> str | None:
    """The name of a signal; None for KILL, which is a cancel. Raises CommandFailed."""
    if given is None:
        return None
    name = _NUMBERS.get(given, given.upper().removeprefix("SIG"))
    if name not in _NUMBERS.values():
        raise CommandFailed(f"scancel: error: Unknown job signal: {given}")
    return None if name == "KILL" else name


def _found(words: Words, ids: Sequence[str], queue: Queue) -> list[str]:
    """The ids of the jobs that all filters find, of those that are named if any is.

    Without --user only the caller's own: an admin sees the jobs of all people.
    """
    wanted = frozenset(_state(each) for each in words.items("state"))
    users = words.items("user")
    jobs = queue.some(ids) if ids else queue.all()
    if users:
        users = with_own_name(users, queue.me[1])
        known = {*local_user_names(), queue.me[1], *(job.user for job in jobs)}
        if unknown := [each for each in users if not each.isdecimal() and each not in known]:
            raise CommandFailed(f"scancel: error: Invalid user name: {unknown[0]}")
    mine = None if users else queue.me[0]
    return [
        job_id
        for job in jobs
        if job.base not in states.ENDED
        and (not wanted or wanted & {job.base, *job.states})
        and (not users or job.user in users or job.count("user_id") in users)
        and (mine is None or count(job.record, "user_id") == mine)
        and all(_has(job, words, option, field) for option, field in _TEXTS.items())
        for job_id in selections(job)
    ]


def selections(job: Job) -> list[str]:
    """What names exactly the tasks of a record, which of an array are some: a cancel of `42` would end all of them."""
    if not job.array_id or not job.tasks:
        return [job.full_id]
    found, tasks = [""], job.tasks.partition("%")[0]
    for item in tasks.split(","):
        if found[-1] and len(found[-1]) + len(item) >= MAX_SELECTION:
            found.append("")
        found[-1] += f",{item}" if found[-1] else item
    return [f"{job.array_id}_[{each}]" for each in found]


def _has(job: Job, words: Words, option: str, field: str) -> bool:
    wanted = words.items(option)
    return not wanted or job.text(field, "") in wanted


def _state(text: str) -> str:
    name = states.named(text)
    if name is None:
        raise CommandFailed(f"scancel: error: Invalid job state specified: {text}")
    return name
