"""sbatch's options as fields of slurmrestd's job description. Names and units are those of sbatch(1)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from clusterra_proxy.sbatch.environment import Export
from clusterra_proxy.sbatch.values import Untranslatable, Values

type Fields = dict[str, Any]
"""Fields of JobDescription, and these three that several options or the environment make one of."""
EXPORT = "--export"
GRES = "--gres"
GPUS_PER_NODE = "--gpus-per-node"


@dataclass(frozen=True)
class Option:
    """An option of sbatch: its names, whether it takes a value, and what it becomes."""

    long: str
    short: str
    value: Literal["none", "required", "optional"]
    translate: Callable[[Values], Fields]

    @property
    def name(self) -> str:
        """The name it goes by in texts."""
        return f"--{self.long}" if self.long else f"-{self.short}"


def _text(field: str) -> Callable[[Values], Fields]:
    return lambda values: {field: values.words()[0]}


def _nothing(_values: Values) -> Fields:
    return {}


def _refuse(reason: str) -> Callable[[Values], Fields]:
    def translate(_values: Values) -> Fields:
        raise Untranslatable(reason)

    return translate


def _nodes(values: Values) -> Fields:
    if not re.fullmatch(r"\d+[kKmM]?(-\d+[kKmM]?)?(:\d+)?", values.text):
        raise Untranslatable("this is no number of nodes such as 2 or 2-4")
    return {"nodes": values.text}


def _exclusive(values: Values) -> Fields:
    kinds = {"": "none", "exclusive": "none", "user": "user", "mcs": "mcs", "topo": "topo"}
    if values.text not in kinds:
        raise Untranslatable("it takes user, mcs, topo or no value")
    return {"shared": (kinds[values.text],)}


def _nice(values: Values) -> Fields:
    if values.text and not re.fullmatch(r"-?\d+", values.text):
        raise Untranslatable("this is no whole number")
    return {"nice": int(values.text or 100)}


def _open_mode(values: Values) -> Fields:
    modes = {"append": "APPEND", "a": "APPEND", "truncate": "TRUNCATE", "t": "TRUNCATE"}
    if values.text.lower() not in modes:
        raise Untranslatable("it takes append or truncate")
    return {"open_mode": (modes[values.text.lower()],)}


def _requeue(values: Values) -> Fields:
    if values.text:
        raise Untranslatable("it takes no value here")
    return {"requeue": True}


def _no_kill(values: Values) -> Fields:
    if values.text.lower() not in {"", "off", "no", "set"}:
        raise Untranslatable("it takes off or no value")
    return {"kill_on_node_fail": values.text.lower() in {"off", "no"}}


_IDENTITY = "a job runs as the user who submits it"
_OURS = "the job's comment is Clusterra's own"
_MAIL = "Clusterra tells of a job's end by its events and webhooks; Slurm sends no mail"
_COMMAND = "this is for the sbatch command, there is none here"
_NO_FIELD = "this option is not supported"

_TRANSLATED: tuple[Option, ...] = (
    Option("account", "A", "required", _text("account")),
    Option("array", "a", "required", _text("array")),
    Option("begin", "b", "required", lambda values: {"begin_time": values.moment()}),
    Option("chdir", "D", "required", _text("current_working_directory")),
    Option("constraint", "C", "required", _text("constraints")),
    Option("cpus-per-task", "c", "required", lambda values: {"cpus_per_task": values.number(1)}),
    Option("deadline", "", "required", lambda values: {"deadline": values.moment()}),
    Option("dependency", "d", "required", _text("dependency")),
    Option("error", "e", "required", _text("standard_error")),
    Option("exclude", "x", "required", lambda values: {"excluded_nodes": values.words()}),
    Option("exclusive", "", "optional", _exclusive),
    Option("export", "", "required", lambda values: {EXPORT: Export.parse(values.text)}),
    Option("gpus", "G", "required", lambda values: {"tres_per_job": values.gpus()}),
    Option("gpus-per-node", "", "required", lambda values: {GPUS_PER_NODE: values.gpus()}),
    Option("gpus-per-socket", "", "required", lambda values: {"tres_per_socket": values.gpus()}),
    Option("gpus-per-task", "", "required", lambda values: {"tres_per_task": values.gpus("=")}),
    Option("gres", "", "required", lambda values: {GRES: values.gres()}),
    Option("hold", "H", "none", lambda _values: {"hold": True}),
    Option("input", "i", "required", _text("standard_input")),
    Option("job-name", "J", "required", _text("name")),
    Option("licenses", "L", "required", _text("licenses")),
    Option("mem", "", "required", lambda values: {"memory_per_node": values.mebibytes()}),
    Option("mem-per-cpu", "", "required", lambda values: {"memory_per_cpu": values.mebibytes()}),
    Option("nice", "", "optional", _nice),
    Option("no-kill", "k", "optional", _no_kill),
    Option("no-requeue", "", "none", lambda _values: {"requeue": False}),
    Option("nodelist", "w", "required", lambda values: {"required_nodes": values.words()}),
    Option("nodes", "N", "required", _nodes),
    Option("ntasks", "n", "required", lambda values: {"tasks": values.number(1)}),
    Option("ntasks-per-node", "", "required", lambda values: {"tasks_per_node": values.number(1)}),
    Option("open-mode", "", "required", _open_mode),
    Option("output", "o", "required", _text("standard_output")),
    Option("oversubscribe", "s", "none", lambda _values: {"shared": ("oversubscribe",)}),
    Option("partition", "p", "required", _text("partition")),
    Option("qos", "q", "required", _text("qos")),
    Option("requeue", "", "optional", _requeue),
    Option("reservation", "", "required", _text("reservation")),
    Option("threads-per-core", "", "required", lambda values: {"threads_per_core": values.number(1)}),
    Option("time", "t", "required", lambda values: {"time_limit": values.minutes()}),
    Option("time-min", "", "required", lambda values: {"time_minimum": values.minutes()}),
    Option("tmp", "", "required", lambda values: {"temporary_disk_per_node": values.mebibytes()}),
    Option("wckey", "", "required", _text("wckey")),
)

_WITHOUT_EFFECT: tuple[Option, ...] = (
    Option("parsable", "", "none", _nothing),
    Option("quiet", "Q", "none", _nothing),
    Option("verbose", "v", "none", _nothing),
)

_REFUSED: tuple[Option, ...] = (
    Option("comment", "", "required", _refuse(_OURS)),
    Option("uid", "", "required", _refuse(_IDENTITY)),
    Option("gid", "", "required", _refuse(_IDENTITY)),
    Option("mail-type", "", "required", _refuse(_MAIL)),
    Option("mail-user", "", "required", _refuse(_MAIL)),
    Option("get-user-env", "", "optional", _refuse("there is no login environment; give an environment")),
    Option("export-file", "", "required", _refuse("give an environment instead")),
    Option("test-only", "", "none", _refuse(_COMMAND)),
    Option("wait", "W", "none", _refuse(_COMMAND)),
    Option("wrap", "", "required", _refuse(_COMMAND)),
    Option("clusters", "M", "required", _refuse("a request names its cluster")),
    Option("help", "h", "none", _refuse(_COMMAND)),
    Option("usage", "", "none", _refuse(_COMMAND)),
    Option("version", "V", "none", _refuse(_COMMAND)),
)

_UNSUPPORTED_WITH_VALUE = """
acctg-freq batch bb bbf cluster-constraint container container-id container-type cores-per-socket cpu-freq
cpus-per-gpu delay-boot extra gpu-bind gpu-freq gres-flags hint kill-on-invalid-dep mcs-label mem-bind
mem-per-gpu mincpus network ntasks-per-core ntasks-per-gpu ntasks-per-socket power prefer priority profile
segment signal sockets-per-node switches thread-spec tres-bind tres-per-task
"""
_UNSUPPORTED_ALONE = """
consolidate-segments contiguous ignore-pbs reboot resv-ports spread-job spread-segments stepmgr use-min-nodes
"""
_UNSUPPORTED = (
    *(Option(name, "", "required", _refuse(_NO_FIELD)) for name in _UNSUPPORTED_WITH_VALUE.split()),
    Option("core-spec", "S", "required", _refuse(_NO_FIELD)),
    Option("distribution", "m", "required", _refuse(_NO_FIELD)),
    Option("extra-node-info", "B", "required", _refuse(_NO_FIELD)),
    Option("nodefile", "F", "required", _refuse(_NO_FIELD)),
    Option("oom-kill-step", "", "optional", _refuse(_NO_FIELD)),
    Option("overcommit", "O", "none", _refuse(_NO_FIELD)),
    Option("propagate", "", "optional", _refuse(_NO_FIELD)),
    *(Option(name, "", "none", _refuse(_NO_FIELD)) for name in _UNSUPPORTED_ALONE.split()),
)

_ALL = (*_TRANSLATED, *_WITHOUT_EFFECT, *_REFUSED, *_UNSUPPORTED)
LONG: dict[str, Option] = {option.long: option for option in _ALL}
SHORT: dict[str, Option] = {option.short: option for option in _ALL if option.short}
