"""All options of sbatch, by their names: those that are translated, ignored and refused. Names follow sbatch(1)."""

from dataclasses import dataclass

from clusterra_sbatch import translations
from clusterra_sbatch.environment import Export
from clusterra_sbatch.getopt import Table, TakesValue
from clusterra_sbatch.translations import EXPORT, GPUS_PER_NODE, GRES, HINT, UMASK, Translate


@dataclass(frozen=True)
class Option:
    """An sbatch option: its names, whether it takes a value, and its translation."""

    long: str
    short: str
    takes_value: TakesValue
    translate: Translate
    warning: str = ""
    """What the user is told when the option is accepted without its effect."""

    @property
    def name(self) -> str:
        """The option's name in error texts."""
        return f"--{self.long}" if self.long else f"-{self.short}"


_IDENTITY = "a job runs as the user who submits it"
_COMMENT = "left out: the job's comment is reserved for Clusterra"
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
    Option("account", "A", "required", translations.text_field("account")),
    Option("array", "a", "required", translations.text_field("array")),
    Option("batch", "", "required", translations.text_field("batch_features")),
    Option("begin", "b", "required", lambda value: {"begin_time": value.timestamp()}),
    Option("chdir", "D", "required", translations.text_field("current_working_directory")),
    Option("constraint", "C", "required", translations.text_field("constraints")),
    Option("container", "", "required", translations.container),
    Option("contiguous", "", "none", lambda _value: {"contiguous": True}),
    Option("cpus-per-task", "c", "required", lambda value: {"cpus_per_task": value.integer(1)}),
    Option("cpus-per-gpu", "", "required", lambda value: {"cpus_per_tres": f"gres/gpu:{value.integer(1)}"}),
    Option("deadline", "", "required", lambda value: {"deadline": value.timestamp()}),
    Option("dependency", "d", "required", translations.text_field("dependency")),
    Option("distribution", "m", "required", lambda value: {"distribution": value.distribution()}),
    Option("error", "e", "required", translations.path_field("standard_error")),
    Option("exclude", "x", "required", translations.names_field("excluded_nodes")),
    Option("exclusive", "", "optional", translations.exclusive),
    Option("export", "", "required", lambda value: {EXPORT: Export(value.text)}),
    Option("gpus", "G", "required", lambda value: {"tres_per_job": value.gpus()}),
    Option("gpus-per-node", "", "required", lambda value: {GPUS_PER_NODE: value.gpus()}),
    Option("gpus-per-socket", "", "required", lambda value: {"tres_per_socket": value.gpus()}),
    Option("gpus-per-task", "", "required", lambda value: {"tres_per_task": value.gpus("=")}),
    Option("gres", "", "required", lambda value: {GRES: value.gres()}),
    Option("gres-flags", "", "required", translations.gres_flags),
    Option("hint", "", "required", lambda value: {HINT: value.text}),
    Option("hold", "H", "none", lambda _value: {"hold": True}),
    Option("input", "i", "required", translations.path_field("standard_input")),
    Option("job-name", "J", "required", translations.text_field("name")),
    Option("kill-on-invalid-dep", "", "required", translations.kill_on_invalid_dependency),
    Option("licenses", "L", "required", translations.text_field("licenses")),
    Option("mail-type", "", "required", translations.mail_type),
    Option("mail-user", "", "required", translations.text_field("mail_user")),
    Option("mem", "", "required", lambda value: {"memory_per_node": value.mebibytes()}),
    Option("mem-per-cpu", "", "required", lambda value: {"memory_per_cpu": value.mebibytes()}),
    Option("mem-per-gpu", "", "required", lambda value: {"memory_per_tres": f"gres/gpu:{value.mebibytes()}"}),
    Option("mincpus", "", "required", lambda value: {"minimum_cpus_per_node": value.integer(1)}),
    Option("nice", "", "optional", translations.nice),
    Option("no-kill", "k", "optional", translations.no_kill),
    Option("no-requeue", "", "none", lambda _value: {"requeue": False}),
    Option("nodelist", "w", "required", translations.names_field("required_nodes")),
    Option("nodes", "N", "required", lambda value: {"nodes": value.nodes()}),
    Option("ntasks", "n", "required", lambda value: {"tasks": value.integer(1)}),
    Option("ntasks-per-core", "", "required", lambda value: {"tasks_per_core": value.integer(1)}),
    Option("ntasks-per-gpu", "", "required", lambda value: {"ntasks_per_tres": value.integer(1)}),
    Option("ntasks-per-tres", "", "required", lambda value: {"ntasks_per_tres": value.integer(1)}),
    Option("ntasks-per-socket", "", "required", lambda value: {"tasks_per_socket": value.integer(1)}),
    Option("ntasks-per-node", "", "required", lambda value: {"tasks_per_node": value.integer(1)}),
    Option("oom-kill-step", "", "optional", translations.oom_kill_step),
    Option("open-mode", "", "required", translations.open_mode),
    Option("output", "o", "required", translations.path_field("standard_output")),
    Option("overcommit", "O", "none", lambda _value: {"overcommit": True}),
    Option("oversubscribe", "s", "none", lambda _value: {"shared": ("oversubscribe",)}),
    Option("partition", "p", "required", translations.text_field("partition")),
    Option("prefer", "", "required", translations.text_field("prefer")),
    Option("qos", "q", "required", translations.text_field("qos")),
    Option("requeue", "", "optional", translations.requeue),
    Option("reservation", "", "required", translations.text_field("reservation")),
    Option("signal", "", "required", translations.signal),
    Option("sockets-per-node", "", "required", lambda value: {"sockets_per_node": value.integer(1)}),
    Option("spread-job", "", "none", lambda _value: {"flags": ("SPREAD_JOB",)}),
    Option("switches", "", "required", translations.switches),
    Option("threads-per-core", "", "required", lambda value: {"threads_per_core": value.integer(1)}),
    Option("time", "t", "required", translations.time_limit),
    Option("time-min", "", "required", translations.time_minimum),
    Option("tmp", "", "required", lambda value: {"temporary_disk_per_node": value.mebibytes()}),
    Option("wait-all-nodes", "", "required", translations.wait_all_nodes),
    Option("use-min-nodes", "", "none", lambda _value: {"flags": ("PREFER_MINIMUM_NODE_COUNT",)}),
    Option("wckey", "", "required", translations.text_field("wckey")),
)

_SRUN_OPTIONS = ("cpu-freq", "gpu-bind", "gpu-freq", "mem-bind", "tres-bind")

_IGNORED: tuple[Option, ...] = (
    Option("comment", "", "required", translations.ignore, _COMMENT),
    *(Option(name, "", "required", translations.ignore, _OF_SRUN) for name in _SRUN_OPTIONS),
    Option("resv-ports", "", "optional", translations.ignore, _OF_SRUN),
    Option("delay-boot", "", "required", translations.ignore, _NO_BOOT),
    Option("power", "", "required", translations.ignore, _NO_BOOT),
    Option("profile", "", "required", translations.ignore, _NO_PROFILE),
    Option("acctg-freq", "", "required", translations.ignore, _NO_SAMPLES),
    Option("context", "", "required", translations.ignore, _NO_CONTEXT),
    *(
        Option(name, short, "none", translations.ignore, _UNREAD)
        for name, short in (("help", "h"), ("usage", ""), ("version", "V"))
    ),
    Option("wrap", "", "required", translations.ignore, _UNREAD),
    Option("ignore-pbs", "", "none", translations.ignore),
    Option("parsable", "", "none", translations.ignore),
    Option("quiet", "Q", "none", translations.ignore),
    Option("verbose", "v", "none", translations.ignore),
)

_REJECTED: tuple[Option, ...] = (
    Option("uid", "", "required", translations.reject(_IDENTITY)),
    Option("gid", "", "required", translations.reject(_IDENTITY)),
    Option(
        "get-user-env",
        "",
        "none",
        translations.reject("there is no login environment; set the job's environment instead"),
    ),
    Option("export-file", "", "required", translations.reject("set the job's environment instead")),
    Option("test-only", "", "none", translations.reject(_COMMAND)),
    Option("wait", "W", "none", translations.reject(_COMMAND)),
    Option("autocomplete", "", "required", translations.reject(_COMMAND)),
    *(Option(name, "", "required", translations.reject(_NO_CONTAINER)) for name in ("container-id", "container-type")),
    *(Option(name, "", "required", translations.reject(_NO_BURST_BUFFER)) for name in ("bb", "bbf")),
    *(Option(name, "", "required", translations.reject(_NO_TOPOLOGY)) for name in ("network", "segment")),
    *(
        Option(name, "", "none", translations.reject(_NO_TOPOLOGY))
        for name in ("consolidate-segments", "spread-segments")
    ),
    Option("core-spec", "S", "required", translations.reject(_NO_CORES)),
    Option("thread-spec", "", "required", translations.reject(_NO_CORES)),
    Option("extra", "", "required", translations.reject("reserved for Clusterra, which tells nodes apart by it")),
    Option("cores-per-socket", "", "required", translations.reject(_NO_CORES_PER_SOCKET)),
    Option("extra-node-info", "B", "required", translations.reject(_NO_CORES_PER_SOCKET)),
    Option("mcs-label", "", "required", translations.reject("the cluster has no security labels")),
    Option("stepmgr", "", "none", translations.reject("the cluster's Slurm manages all steps itself")),
    Option("tres-per-task", "", "required", translations.reject("use --cpus-per-task and --gpus-per-task instead")),
    Option("cluster-constraint", "", "required", translations.reject("the cluster belongs to no federation")),
    Option("nodefile", "F", "required", translations.reject("there is no file here to read; use --nodelist instead")),
    Option("priority", "", "required", translations.reject("only operators set a priority; use --nice instead")),
    Option("propagate", "", "optional", translations.reject("there is no login shell whose limits could be taken")),
    Option("reboot", "", "none", translations.reject("a worker is not rebooted for a job")),
    Option("clusters", "M", "required", translations.reject("the request already names the cluster")),
    Option("cluster", "", "required", translations.reject("the request already names the cluster")),
    Option("external", "", "none", translations.reject("a job without a script has no use here")),
    Option("mem-update", "", "required", translations.reject("a job keeps the memory that it asks for")),
    Option("resources", "", "required", translations.reject("use --licenses instead")),
)

_ALL = (*_TRANSLATED, *_IGNORED, *_REJECTED)
_BY_NAME = {option.long: option for option in _ALL}
LONG: dict[str, Option] = _BY_NAME | {"tasks-per-node": _BY_NAME["ntasks-per-node"]}
"""All options by the names that sbatch knows. Two names may be of one option."""
SHORT: dict[str, Option] = {option.short: option for option in _ALL if option.short}
SBATCH = Table("sbatch", LONG, SHORT)
OF_FOREIGN_LINES = LONG | {UMASK: Option(UMASK, "", "required", translations.umask)}
"""What lines of other systems may set."""
