"""`scontrol`: shows jobs, nodes, partitions and the configuration, and changes jobs."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from clusterra_cli.getopt import Words, options, split
from clusterra_cli.slurm_commands.failures import DENIED, INVALID_JOB, CommandFailed, NotKnown, Refused
from clusterra_cli.slurm_commands.fields.job_values import Job
from clusterra_cli.slurm_commands.fields.scontrol_records import Lines, job_lines, node_lines, partition_lines, written
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation.hostlists import BadHostlist, compressed, expanded
from clusterra_cli.slurm_commands.notation.job_updates import changes
from clusterra_cli.slurm_commands.notation.times import moment
from clusterra_cli.slurm_commands.own_clusters import chosen_clusters
from clusterra_cli.slurm_commands.reads.queue import JOB_ID, Queue
from clusterra_cli.slurm_commands.records import Record, objects, text
from clusterra_cli.slurm_commands.terminal.command_lines import VERSION, asked_about, read
from clusterra_cli.slurm_commands.terminal.printing import complain, write_line

OPTIONS = options(
    "scontrol",
    none="all:a details:d future:F help:h hide local oneliner:o quiet:Q sibling verbose:v version:V yaml federation",
    required="clusters:M cluster uid:u",
    optional="json",
    same={"cluster": "clusters"},
    unsupported="uid yaml json future",
)
MAX_ARRAY_SIZE, MIN_JOB_AGE_SECONDS = 10_001, 300
"""What `show config` prints: the largest array, and for how long Slurm keeps a job that has ended, as in the lab."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A keyword of scontrol with its arguments."""

    words: Words
    arguments: tuple[str, ...]

    @property
    def gateway(self) -> Gateway:
        gateway = Gateway()
        chosen_clusters("scontrol", self.words, gateway)
        return gateway


def main(arguments: Sequence[str]) -> int:
    """Carry out a keyword. Raises CommandFailed."""
    words = read(OPTIONS, arguments)
    if asked_about(OPTIONS, words):
        return 0
    if not words.others:
        raise CommandFailed("scontrol: error: no keyword given, such as: show job 42")
    keyword, *rest = words.others
    name = _whole(keyword, tuple(_KEYWORDS))
    if name is None:
        raise CommandFailed(f"invalid keyword: {keyword}")
    return _KEYWORDS[name](_Call(words, tuple(rest)))


def _whole(word: str, names: Sequence[str]) -> str | None:
    """The first name that begins with a word, whatever its case."""
    return next((each for each in names if word and each.startswith(word.lower())), None)


def _show(call: _Call) -> int:
    if not call.arguments:
        raise CommandFailed("too few arguments for keyword:show")
    entity, *names = call.arguments
    if "=" in entity:
        entity, _, first = entity.partition("=")
        names = [first, *names]
    kind = _whole(entity, tuple(_SHOWN))
    if kind is None:
        raise CommandFailed(f"invalid entity:{entity} for keyword:show")
    return _SHOWN[kind](call, tuple(names))


def _show_jobs(call: _Call, names: Sequence[str]) -> int:
    queue = Queue(call.gateway)
    details = call.words.has("details")
    try:
        jobs = [job for each in names for job in _job(queue, each)] if names else queue.all()
    except Refused as error:
        raise CommandFailed(f"slurm_load_jobs error: {error}") from None
    if not jobs:
        write_line("No jobs in the system")
        return 0
    _out(call, [job_lines(each, details=details) for each in jobs])
    return 0


def _job(queue: Queue, name: str) -> list[Job]:
    if JOB_ID.fullmatch(name) is None:
        raise CommandFailed(f"scontrol_print_job error: {INVALID_JOB}")
    try:
        found = queue.one(name)
    except NotKnown:
        raise CommandFailed(f"slurm_load_jobs error: {INVALID_JOB}") from None
    if not found:
        raise CommandFailed(f"Job {name} not found")
    return found


def _show_nodes(call: _Call, names: Sequence[str]) -> int:
    return _show_some(call, "node", names, node_lines)


def _show_partitions(call: _Call, names: Sequence[str]) -> int:
    return _show_some(call, "partition", names, partition_lines)


def _show_some(call: _Call, kind: str, names: Sequence[str], lines: Callable[[Record], Lines]) -> int:
    try:
        records = objects(call.gateway.slurm(f"slurm/{kind}s/"), f"{kind}s")
    except Refused as error:
        raise CommandFailed(f"slurm_load_{kind}{'s' if kind == 'partition' else ''} error: {error}") from None
    code = 0
    try:
        wanted = [name for each in names for name in expanded(each)]
    except BadHostlist as error:
        raise CommandFailed(f"scontrol: error: invalid list of names: {error}") from None
    by_name = {text(each, "name"): each for each in records}
    for name in wanted:
        if name not in by_name:
            write_line(f"{kind.capitalize()} {name} not found")
            code = 1
    if not wanted and not records:
        write_line(f"No {kind}s in the system")
    _out(call, [lines(by_name[name]) for name in (wanted or by_name) if name in by_name])
    return code


def _out(call: _Call, records: Sequence[Lines]) -> None:
    sys.stdout.write(written(records, one_line=call.words.has("oneliner")))


def _show_config(call: _Call, _names: Sequence[str]) -> int:
    gateway = call.gateway
    try:
        answer = gateway.slurm("slurm/ping/")
        cluster = gateway.cluster
    except Refused as error:
        raise CommandFailed(f"slurm_load_ctl_conf error: {error}") from None
    values = {
        "ClusterName": cluster,
        "MaxArraySize": str(MAX_ARRAY_SIZE),
        "MinJobAge": f"{MIN_JOB_AGE_SECONDS} sec",
        "SLURM_VERSION": VERSION,
    }
    write_line(f"Configuration data as of {moment(int(time.time()))}")
    for name, value in values.items():
        write_line(f"{name:<23} = {value}")
    up = any(each.get("responding") for each in objects(answer, "pings"))
    host = next((text(each, "hostname") for each in objects(answer, "pings")), "slurm")
    write_line(f"\nSlurmctld(primary) at {host} is {'UP' if up else 'DOWN'}")
    return 0


def _show_hostnames(_call: _Call, names: Sequence[str]) -> int:
    given = names[0] if names else os.environ.get("SLURM_JOB_NODELIST", os.environ.get("SLURM_NODELIST", ""))
    if not given:
        raise CommandFailed("scontrol: error: no list of hosts is given, and SLURM_NODELIST is not set")
    try:
        sys.stdout.write("".join(f"{each}\n" for each in expanded(given)))
    except BadHostlist as error:
        raise CommandFailed(f"Invalid hostlist: {error}") from None
    return 0


def _show_hostlist(_call: _Call, names: Sequence[str]) -> int:
    try:
        write_line(compressed(expanded(",".join(names))))
    except BadHostlist as error:
        raise CommandFailed(f"Invalid hostlist: {error}") from None
    return 0


_SHOWN: Mapping[str, Callable[[_Call, Sequence[str]], int]] = {
    "config": _show_config,
    "hostlist": _show_hostlist,
    "hostnames": _show_hostnames,
    "jobs": _show_jobs,
    "nodes": _show_nodes,
    "partitions": _show_partitions,
}


def _ping(call: _Call) -> int:
    try:
        pings = objects(call.gateway.slurm("slurm/ping/"), "pings")
    except Refused:
        write_line("Slurmctld(primary) at slurm is DOWN")
        return 1
    for each in pings:
        write_line(f"Slurmctld(primary) at {text(each, 'hostname')} is {'UP' if each.get('responding') else 'DOWN'}")
    return 0 if any(each.get("responding") for each in pings) else 1


def _on_jobs(action: str, function: str = "") -> Callable[[_Call], int]:
    """A keyword that does one thing with all jobs that are named."""

    def act(call: _Call) -> int:
        if not call.arguments:
            raise CommandFailed(f"too few arguments for keyword:{action}")
        hold = action == "requeuehold"
        ids = [each for word in call.arguments for each in split(_ids_of(word))]
        body = {"hold": True} if hold else None
        return _each(call, ids, lambda path: ("POST", f"{path}/{'requeue' if hold else action}", body), function)

    return act


def _ids_of(word: str) -> str:
    """The ids in `42,43` or `jobid=42`. Raises CommandFailed for the names of jobs."""
    name, equals, value = word.partition("=")
    if not equals:
        return word
    if name.lower() not in ("job", "jobid"):
        raise CommandFailed(f"scontrol: error: {name}= is not supported over HTTP: name the ids of the jobs")
    return value


def _update(call: _Call) -> int:
    ids, fields = changes(call.arguments)
    return _each(call, ids, lambda path: ("PATCH", path, fields))


def _each(
    call: _Call, ids: Sequence[str], request: Callable[[str], tuple[str, str, object]], function: str = ""
) -> int:
    gateway, code = call.gateway, 0
    for each in ids:
        method, path, body = request(quote(each, safe=""))
        try:
            gateway.jobs_api(method, path, body)  # type: ignore[arg-type]
        except Refused as error:
            why = INVALID_JOB if isinstance(error, NotKnown) else error
            complain(f"{why} for job {each}")
            if function:
                complain(f"{function} error:{why}")
            code = 1
    return code


def _denied(call: _Call) -> int:
    """Only operators of the cluster may do this, as Slurm says too."""
    if not call.arguments:
        raise CommandFailed(f"too few arguments for keyword:{call.words.others[0]}")
    for each in (item for word in call.arguments for item in split(word)):
        complain(f"{DENIED} for job {each}")
    return 1


_KEYWORDS: Mapping[str, Callable[[_Call], int]] = {
    "hold": _on_jobs("hold", "slurm_suspend"),
    "ping": _ping,
    "release": _on_jobs("release", "slurm_suspend"),
    "requeue": _on_jobs("requeue"),
    "requeuehold": _on_jobs("requeuehold"),
    "resume": _denied,
    "show": _show,
    "suspend": _denied,
    "uhold": _on_jobs("hold", "slurm_suspend"),
    "update": _update,
}
"""The keywords, which may be shortened: the first one counts."""
