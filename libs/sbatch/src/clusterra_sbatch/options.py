"""Translates sbatch's options to fields of slurmrestd's job description. Names and units follow sbatch(1)."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from clusterra_sbatch.environment import Export
from clusterra_sbatch.getopt import Table, TakesValue
from clusterra_sbatch.values import OptionValue, Untranslatable

type Fields = dict[str, Any]
"""Fields of ScriptJob, and these keys, which `applying.apply` takes out again. None is what is not given after all."""
EXPORT = "--export"
UNLIMITED = "--time=UNLIMITED"
UMASK = "umask"
HINT = "--hint"
MULTITHREAD = "multithread"
HINTS = ("compute_bound", "memory_bound", MULTITHREAD, "nomultithread")
"""The hints; all but one mean one thread of each core."""
INSTEAD_OF_HINT = frozenset({"threads_per_core", "tasks_per_core", "sockets_per_node"})
"""Fields beside which a hint means nothing, whatever it is."""
GRES = "--gres"
GPUS_PER_NODE = "--gpus-per-node"
GRES_FLAGS = "--gres-flags"
MAX_NICE = 2**31 - 3


@dataclass(frozen=True)
class Option:
    """An sbatch option: its names, whether it takes a value, and its translation."""

    long: str
    short: str
    takes_value: TakesValue
    translate: Callable[[OptionValue], Fields]
    warning: str = ""
    """What the user is told when the option is accepted without its effect."""

    @property
    def name(self) -> str:
        """The option's name in error texts."""
        return f"--{self.long}" if self.long else f"-{self.short}"


def _text_field(field: str) -> Callable[[OptionValue], Fields]:
    return lambda value: {field: value.given()}


def _names_field(field: str) -> Callable[[OptionValue], Fields]:
    return lambda value: {field: (value.text,) if value.text else None}


def _path_field(field: str) -> Callable[[OptionValue], Fields]:
    def translate(value: OptionValue) -> Fields:
        if not value.text:
            raise Untranslatable("must be a file: an empty name is the folder in which the job starts")
        return {field: "/dev/null" if value.text.lower() == "none" else value.text}

    return translate


def _ignore(_value: OptionValue) -> Fields:
    return {}


def _reject(reason: str) -> Callable[[OptionValue], Fields]:
    def translate(_value: OptionValue) -> Fields:
        raise Untranslatable(reason)

    return translate


def _exclusive(value: OptionValue) -> Fields:
    kinds = {"exclusive": "none", "allocation": "none"} | {
        name: name for name in ("oversubscribe", "user", "mcs", "topo")
    }
    kind = kinds.get(value.text.lower() or "exclusive")
    if kind is None:
        raise Untranslatable("the value must be user, mcs or topo, or be omitted")
    return {"shared": (kind,)}


def _nice(value: OptionValue) -> Fields:
    if not value.text:
        return {"nice": 100}
    # sbatch reads as many digits as there are, and none as zero.
    found = re.match(r"[ \t\n\v\f\r]*([+-]?[0-9]{1,18})", value.text)
    nice = int(found[1]) if found else 0
    if abs(nice) > MAX_NICE:
        raise Untranslatable(f"must be a number up to {MAX_NICE}")
    return {"nice": nice}


def _open_mode(value: OptionValue) -> Fields:
    modes = {"a": "APPEND", "t": "TRUNCATE"}
    if (mode := modes.get(value.text[:1].lower())) is None:
        raise Untranslatable("must be append or truncate")
    return {"open_mode": (mode,)}


def _requeue(value: OptionValue) -> Fields:
    if value.text:
        raise Untranslatable("values are not supported")
    return {"requeue": True}


def _time(value: OptionValue) -> Fields:
    minutes = value.minutes()
    return {"time_limit": minutes, UNLIMITED: minutes is None}


def _time_min(value: OptionValue) -> Fields:
    minutes = value.minutes()
    if minutes is None:
        raise Untranslatable("must be longer than zero and not without limit")
    return {"time_minimum": minutes}


def _umask(value: OptionValue) -> Fields:
    if not re.fullmatch(r"[0-7]{1,4}", value.text) or int(value.text, 8) > 0o777:
        raise Untranslatable("must be an octal number up to 0777")
    return {UMASK: value.text}


def _signal(value: OptionValue) -> Fields:
    signal, seconds, flags = value.signal()
    return {"kill_warning_signal": signal, "kill_warning_delay": seconds, "kill_warning_flags": flags}


def _kill_on_invalid_dependency(value: OptionValue) -> Fields:
    return {"flags": ("KILL_INVALID_DEPENDENCY" if value.yes() else "NO_KILL_INVALID_DEPENDENCY",)}


def _no_kill(value: OptionValue) -> Fields:
    if value.text.lower() not in {"", "off", "no", "set"}:
        raise Untranslatable("the value must be off, or be omitted")
    return {"kill_on_node_fail": value.text.lower() in {"off", "no"}}


def _gres_flags(value: OptionValue) -> Fields:
    flags = {
        "enforce-binding": "GRES_BINDING_ENFORCED",
        "disable-binding": "GRES_BINDING_DISABLED",
    }
    given = [each for each in value.text.lower().split(",") if each]
    if not all(each in flags for each in given):
        raise Untranslatable(f"must be one of {', '.join(flags)}")
    if len(set(given)) > 1:
        raise Untranslatable(f"{' and '.join(flags)} are mutually exclusive")
    # A later option takes back what an earlier one has set.
    return {GRES_FLAGS: flags[given[0]] if given else None}


def _container(value: OptionValue) -> Fields:
    if not value.text:
        return {"container": None}
    if not value.text.startswith("/"):
        raise Untranslatable("must be the absolute path of an OCI bundle")
    return {"container": value.text}


def _switches(value: OptionValue) -> Fields:
    count, at, limit = value.text.partition("@")
    wait = None
    if at:
        # sbatch takes a time that it cannot read for none.
        with suppress(Untranslatable):
            wait = OptionValue(limit, value.now).seconds()
    return {"required_switches": OptionValue(count, value.now).integer(1), "wait_for_switch": wait}


def _oom_kill_step(value: OptionValue) -> Fields:
    if value.text and (not re.fullmatch(r"[ \t\n\v\f\r]*\+?[0-9]{1,18}", value.text) or int(value.text) > 1):
        raise Untranslatable("the value must be 0 or 1, or be omitted")
    return {"oom_kill_step": int(value.text or 1)}


def _wait_all_nodes(value: OptionValue) -> Fields:
    number = OptionValue(value.text or "0", value.now).integer()
    if number > 1:
        raise Untranslatable("the value must be 0 or 1")
    return {"wait_all_nodes": number == 1}


_IDENTITY = "a job runs as the user who submits it"
_COMMENT = "left out: the job's comment is reserved for Clusterra"
_MAIL = "left out: Slurm sends no mail here; follow the cluster's event stream instead"
_COMMAND = "this option applies only to the sbatch command"
_NO_CONTAINER = "only a bundle can be run: use --container"
_NO_BURST_BUFFER = "the cluster has no burst buffers"
_NO_TOPOLOGY = "workers have no network topology"
_OF_SRUN = "left out: it binds or tunes the tasks of srun; give it to srun in the script"
_NO_BOOT = "left out: Slurm boots no machine here"
_NO_PROFILE = "left out: the cluster records no profiles"
_NO_CORES_PER_SOCKET = "not every release of slurmrestd has it; use --sockets-per-node or --cpus-per-task instead"
_NO_CONTEXT = "left out: workers do not run SELinux"
_UNREAD = "left out: sbatch reads it only on its command line"
_NO_SAMPLES = "left out: the cluster sets how often it samples"
_NO_CORES = "workers keep no cores or threads for the system"

_TRANSLATED: tuple[Option, ...] = (
    Option("account", "A", "required", _text_field("account")),
    Option("array", "a", "required", _text_field("array")),
    Option("batch", "", "required", _text_field("batch_features")),
    Option("begin", "b", "required", lambda value: {"begin_time": value.timestamp()}),
    Option("chdir", "D", "required", _text_field("current_working_directory")),
    Option("constraint", "C", "required", _text_field("constraints")),
    Option("container", "", "required", _container),
    Option("contiguous", "", "none", lambda _value: {"contiguous": True}),
    Option("cpus-per-task", "c", "required", lambda value: {"cpus_per_task": value.integer(1)}),
    Option("cpus-per-gpu", "", "required", lambda value: {"cpus_per_tres": f"gres/gpu:{value.integer(1)}"}),
    Option("deadline", "", "required", lambda value: {"deadline": value.timestamp()}),
    Option("dependency", "d", "required", _text_field("dependency")),
    Option("distribution", "m", "required", lambda value: {"distribution": value.distribution()}),
    Option("error", "e", "required", _path_field("standard_error")),
    Option("exclude", "x", "required", _names_field("excluded_nodes")),
    Option("exclusive", "", "optional", _exclusive),
    Option("export", "", "required", lambda value: {EXPORT: Export(value.text)}),
    Option("gpus", "G", "required", lambda value: {"tres_per_job": value.gpus()}),
    Option("gpus-per-node", "", "required", lambda value: {GPUS_PER_NODE: value.gpus()}),
    Option("gpus-per-socket", "", "required", lambda value: {"tres_per_socket": value.gpus()}),
    Option("gpus-per-task", "", "required", lambda value: {"tres_per_task": value.gpus("=")}),
    Option("gres", "", "required", lambda value: {GRES: value.gres()}),
    Option("gres-flags", "", "required", _gres_flags),
    Option("hint", "", "required", lambda value: {HINT: value.text}),
    Option("hold", "H", "none", lambda _value: {"hold": True}),
    Option("input", "i", "required", _path_field("standard_input")),
    Option("job-name", "J", "required", _text_field("name")),
    Option("kill-on-invalid-dep", "", "required", _kill_on_invalid_dependency),
    Option("licenses", "L", "required", _text_field("licenses")),
    Option("mem", "", "required", lambda value: {"memory_per_node": value.mebibytes()}),
    Option("mem-per-cpu", "", "required", lambda value: {"memory_per_cpu": value.mebibytes()}),
    Option("mem-per-gpu", "", "required", lambda value: {"memory_per_tres": f"gres/gpu:{value.mebibytes()}"}),
    Option("mincpus", "", "required", lambda value: {"minimum_cpus_per_node": value.integer(1)}),
    Option("nice", "", "optional", _nice),
    Option("no-kill", "k", "optional", _no_kill),
    Option("no-requeue", "", "none", lambda _value: {"requeue": False}),
    Option("nodelist", "w", "required", _names_field("required_nodes")),
    Option("nodes", "N", "required", lambda value: {"nodes": value.nodes()}),
    Option("ntasks", "n", "required", lambda value: {"tasks": value.integer(1)}),
    Option("ntasks-per-core", "", "required", lambda value: {"tasks_per_core": value.integer(1)}),
    Option("ntasks-per-gpu", "", "required", lambda value: {"ntasks_per_tres": value.integer(1)}),
    Option("ntasks-per-tres", "", "required", lambda value: {"ntasks_per_tres": value.integer(1)}),
    Option("ntasks-per-socket", "", "required", lambda value: {"tasks_per_socket": value.integer(1)}),
    Option("ntasks-per-node", "", "required", lambda value: {"tasks_per_node": value.integer(1)}),
    Option("oom-kill-step", "", "optional", _oom_kill_step),
    Option("open-mode", "", "required", _open_mode),
    Option("output", "o", "required", _path_field("standard_output")),
    Option("overcommit", "O", "none", lambda _value: {"overcommit": True}),
    Option("oversubscribe", "s", "none", lambda _value: {"shared": ("oversubscribe",)}),
    Option("partition", "p", "required", _text_field("partition")),
    Option("prefer", "", "required", _text_field("prefer")),
    Option("qos", "q", "required", _text_field("qos")),
    Option("requeue", "", "optional", _requeue),
    Option("reservation", "", "required", _text_field("reservation")),
    Option("signal", "", "required", _signal),
    Option("sockets-per-node", "", "required", lambda value: {"sockets_per_node": value.integer(1)}),
    Option("spread-job", "", "none", lambda _value: {"flags": ("SPREAD_JOB",)}),
    Option("switches", "", "required", _switches),
    Option("threads-per-core", "", "required", lambda value: {"threads_per_core": value.integer(1)}),
    Option("time", "t", "required", _time),
    Option("time-min", "", "required", _time_min),
    Option("tmp", "", "required", lambda value: {"temporary_disk_per_node": value.mebibytes()}),
    Option("wait-all-nodes", "", "required", _wait_all_nodes),
    Option("use-min-nodes", "", "none", lambda _value: {"flags": ("PREFER_MINIMUM_NODE_COUNT",)}),
    Option("wckey", "", "required", _text_field("wckey")),
)

_SRUN_OPTIONS = ("cpu-freq", "gpu-bind", "gpu-freq", "mem-bind", "tres-bind")

_IGNORED: tuple[Option, ...] = (
    Option("comment", "", "required", _ignore, _COMMENT),
    Option("mail-type", "", "required", _ignore, _MAIL),
    Option("mail-user", "", "required", _ignore, _MAIL),
    *(Option(name, "", "required", _ignore, _OF_SRUN) for name in _SRUN_OPTIONS),
    Option("resv-ports", "", "optional", _ignore, _OF_SRUN),
    Option("delay-boot", "", "required", _ignore, _NO_BOOT),
    Option("power", "", "required", _ignore, _NO_BOOT),
    Option("profile", "", "required", _ignore, _NO_PROFILE),
    Option("acctg-freq", "", "required", _ignore, _NO_SAMPLES),
    Option("context", "", "required", _ignore, _NO_CONTEXT),
    *(
        Option(name, short, "none", _ignore, _UNREAD)
        for name, short in (("help", "h"), ("usage", ""), ("version", "V"))
    ),
    Option("wrap", "", "required", _ignore, _UNREAD),
    Option("ignore-pbs", "", "none", _ignore),
    Option("parsable", "", "none", _ignore),
    Option("quiet", "Q", "none", _ignore),
    Option("verbose", "v", "none", _ignore),
)

_REJECTED: tuple[Option, ...] = (
    Option("uid", "", "required", _reject(_IDENTITY)),
    Option("gid", "", "required", _reject(_IDENTITY)),
    Option("get-user-env", "", "none", _reject("there is no login environment; set the job's environment instead")),
    Option("export-file", "", "required", _reject("set the job's environment instead")),
    Option("test-only", "", "none", _reject(_COMMAND)),
    Option("wait", "W", "none", _reject(_COMMAND)),
    Option("autocomplete", "", "required", _reject(_COMMAND)),
    *(Option(name, "", "required", _reject(_NO_CONTAINER)) for name in ("container-id", "container-type")),
    *(Option(name, "", "required", _reject(_NO_BURST_BUFFER)) for name in ("bb", "bbf")),
    *(Option(name, "", "required", _reject(_NO_TOPOLOGY)) for name in ("network", "segment")),
    *(Option(name, "", "none", _reject(_NO_TOPOLOGY)) for name in ("consolidate-segments", "spread-segments")),
    Option("core-spec", "S", "required", _reject(_NO_CORES)),
    Option("thread-spec", "", "required", _reject(_NO_CORES)),
    Option("extra", "", "required", _reject("reserved for Clusterra, which tells nodes apart by it")),
    Option("cores-per-socket", "", "required", _reject(_NO_CORES_PER_SOCKET)),
    Option("extra-node-info", "B", "required", _reject(_NO_CORES_PER_SOCKET)),
    Option("mcs-label", "", "required", _reject("the cluster has no security labels")),
    Option("stepmgr", "", "none", _reject("the cluster's Slurm manages all steps itself")),
    Option("tres-per-task", "", "required", _reject("use --cpus-per-task and --gpus-per-task instead")),
    Option("cluster-constraint", "", "required", _reject("the cluster belongs to no federation")),
    Option("nodefile", "F", "required", _reject("there is no file here to read; use --nodelist instead")),
    Option("priority", "", "required", _reject("only operators set a priority; use --nice instead")),
    Option("propagate", "", "optional", _reject("there is no login shell whose limits could be taken")),
    Option("reboot", "", "none", _reject("a worker is not rebooted for a job")),
    Option("clusters", "M", "required", _reject("the request already names the cluster")),
    Option("cluster", "", "required", _reject("the request already names the cluster")),
    Option("external", "", "none", _reject("a job without a script has no use here")),
    Option("mem-update", "", "required", _reject("a job keeps the memory that it asks for")),
    Option("resources", "", "required", _reject("use --licenses instead")),
)

_ALL = (*_TRANSLATED, *_IGNORED, *_REJECTED)
_BY_NAME = {option.long: option for option in _ALL}
LONG: dict[str, Option] = _BY_NAME | {"tasks-per-node": _BY_NAME["ntasks-per-node"]}
"""All options by the names that sbatch knows. Two names may be of one option."""
SHORT: dict[str, Option] = {option.short: option for option in _ALL if option.short}
SBATCH = Table("sbatch", LONG, SHORT)
OF_FOREIGN_LINES = LONG | {UMASK: Option(UMASK, "", "required", _umask)}
"""What lines of other systems may set."""
