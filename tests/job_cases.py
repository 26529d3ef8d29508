"""A table of job requests that Slurm knows, each with the demand that the scaler must derive from Slurm's answer.

`make record-jobs` submits each of them to a real Slurm and writes the answers to `recorded/jobs.json`.
"""

from dataclasses import dataclass
from typing import Literal

from clusterra_contracts.demand import Need, Part
from clusterra_contracts.gres import Gres

UID = 5001
BUSY = "busy-1"
"""The worker of the stage `a busy node`: it has 4 CPUs and runs the job `fill`, which uses one CPU."""


@dataclass(frozen=True)
class JobCase:
    """A job to submit, and the demand that it must become; without parts it becomes none."""

    name: str
    options: str
    """Options of sbatch. `{fill}` stands for the id of a running job."""
    parts: tuple[Part, ...] = ()
    count: int = 1
    reason: str = "Resources"
    """Slurm's reason once it has considered the job; the record is taken then."""
    refused: str = ""
    """Slurm's error when it rejects the job at submit."""
    components: tuple[str, ...] = ()
    """Options of the further components of a heterogeneous job."""
    then: tuple[str, ...] = ()
    """An administrator's command after the submit; `{job}` is the job's id."""
    stage: Literal["no node", "a busy node"] = "no node"


def need(cpus: int = 1, memory_mib: int = 0, constraint: str = "", gres: str = "", **more: object) -> Need:
    """The need of one node: by default 1 GiB per CPU (DefMemPerCPU); GPUs have the form `gpu:h100=2`."""
    requested = [item.partition("=") for item in gres.split(",")] if gres else []
    resources = tuple(Gres(name, int(count)) for name, _, count in requested)
    return Need(cpus, memory_mib or 1024 * cpus, constraint, resources, **more)  # type: ignore[arg-type]


def one(cpus: int = 1, memory_mib: int = 0, constraint: str = "", gres: str = "", **more: object) -> tuple[Part, ...]:
    """The parts of a job of one node."""
    return (Part(need(cpus, memory_mib, constraint, gres, **more)),)


def alike(nodes: int, cpus: int = 1, memory_mib: int = 0, constraint: str = "", gres: str = "") -> tuple[Part, ...]:
    """The parts of a job of several nodes with equal needs."""
    return (Part(need(cpus, memory_mib, constraint, gres), nodes),)


CASES = (
    JobCase("nothing", "", one()),
    JobCase("cpus per task", "-c 4", one(4)),
    JobCase("tasks", "-n 3", one(3)),
    JobCase("tasks of several cpus", "-n 3 -c 4", one(12)),
    JobCase("more tasks than a node has cpus", "-n 40", alike(2, 20)),
    JobCase("more tasks than a node of a family has cpus", "-n 40 -C general", alike(3, 14, constraint="general")),
    JobCase("overcommit", "-O -n 2", one(1)),
    JobCase("least cpus per node", "--mincpus=6 -n 2", one(6)),
    JobCase("one thread per core", "--threads-per-core=1 -c 3", one(3)),
    JobCase("no multithreading", "--hint=nomultithread -n 3", one(3)),
    JobCase("spread over nodes", "--spread-job -n 4", one(4)),
    # Memory
    JobCase("memory per node", "--mem=9000", one(1, 9000)),
    JobCase("memory per cpu", "--mem-per-cpu=3000 -c 2", one(2, 6000)),
    JobCase("memory per cpu of tasks on nodes", "--mem-per-cpu=3000 -n 5 -N 2", alike(2, 3, 9000)),
    JobCase("all memory", "--mem=0", one(1, 2048, exclusive=True)),
    JobCase("memory per gpu", "--gpus=2 --mem-per-gpu=20G", one(1, 40960, gres="gpu=2")),
    JobCase("memory per gpu on nodes", "--gpus=4 -N 2 --mem-per-gpu=20G", alike(2, 1, 40960, gres="gpu=2")),
    # Nodes
    JobCase("nodes", "-N 3", alike(3)),
    JobCase("nodes from to", "-N 2-4", alike(2)),
    JobCase("nodes from to with tasks that fit few", "-N 2-4 -n 24", alike(2, 12)),
    JobCase("nodes from to with tasks that need more", "-N 2-4 -n 80 -C gpu", alike(3, 27, constraint="gpu")),
    JobCase("tasks on nodes", "-n 7 -N 2", alike(2, 4)),
    JobCase("tasks of several cpus on nodes", "-n 7 -N 2 -c 2", alike(2, 8)),
    JobCase("tasks per node", "-N 2 --ntasks-per-node=3", alike(2, 3)),
    JobCase("tasks per node of all tasks", "-n 8 --ntasks-per-node=2", alike(4, 2)),
    JobCase("contiguous", "--contiguous -N 2", alike(2)),
    # GPUs
    JobCase("gres", "--gres=gpu", one(gres="gpu=1")),
    JobCase("gres count", "--gres=gpu:2", one(gres="gpu=2")),
    JobCase("gres type", "--gres=gpu:h100:4", one(gres="gpu:h100=4")),
    JobCase("gres on nodes", "--gres=gpu:h100:2 -N 2", alike(2, gres="gpu:h100=2")),
    JobCase("gpus", "--gpus=3", one(gres="gpu=3")),
    JobCase("gpus of a type on more than one node", "--gpus=h100:12", alike(2, gres="gpu:h100=6")),
    JobCase("gpus on nodes", "--gpus=8 -N 2", alike(2, gres="gpu=4")),
    JobCase("gpus on nodes from to", "--gpus=4 -N 2-4", alike(2, gres="gpu=2")),
    JobCase("gpus per node", "--gpus-per-node=2 -N 2", alike(2, gres="gpu=2")),
    JobCase("gpus per node of a type", "--gpus-per-node=h100:2 -N 2", alike(2, gres="gpu:h100=2")),
    JobCase("gpus per task", "--gpus-per-task=1 -n 4", one(4, gres="gpu=4")),
    JobCase("gpus per task of a type", "--gpus-per-task=h100:1 -n 12", alike(2, 6, gres="gpu:h100=6")),
    JobCase("gpus per socket", "--gpus-per-socket=1 --sockets-per-node=1", one(gres="gpu=1")),
    JobCase("cpus per gpu", "--gpus=4 --cpus-per-gpu=3", one(12, gres="gpu=4")),
    JobCase("tasks per gpu", "--ntasks-per-gpu=2 -n 4", one(4, gres="gpu=2")),
    JobCase("more gpus of the job than any node has", "--gpus=h100:9 -N 1", one(gres="gpu:h100=9")),
    # Features
    JobCase("feature", "-C general", one(constraint="general")),
    JobCase("features and", "-C 'general&general-large'", one(constraint="general&general-large")),
    JobCase("features or", "-C 'general|compute'", one(constraint="general|compute")),
    JobCase("features in parentheses", "-C '(general|gpu)&h100'", one(constraint="(general|gpu)&h100")),
    JobCase("the same feature on one node", "-C '[general|compute]'", one(constraint="[general|compute]")),
    JobCase("the same feature on all nodes", "-C '[general|compute]' -N 2", alike(2, constraint="general")),
    JobCase(
        "the same feature where only the second fits",
        "-C '[compute|general]' -N 2 --mem=20000",
        alike(2, 1, 20000, "general"),
    ),
    JobCase(
        "counted features",
        "-C '[general*2&compute*1]' -N 3",
        (*alike(2, constraint="general"), *one(constraint="compute")),
    ),
    JobCase(
        "counted features without nodes",
        "-C '[general*2&compute*1]'",
        (*alike(2, constraint="general"), *one(constraint="compute")),
    ),
    JobCase("a counted feature among nodes", "-C 'general*2' -N 3", (*alike(2, constraint="general"), *one())),
    JobCase("preferred feature", "--prefer=compute", one(), reason="Priority"),
    # Sharing
    JobCase("exclusive", "--exclusive", one(exclusive=True)),
    JobCase("exclusive on nodes", "--exclusive -N 2", (Part(need(exclusive=True), 2),)),
    JobCase("exclusive to the user", "--exclusive=user", one(exclusive_uid=UID)),
    JobCase("oversubscribe", "--oversubscribe", one()),
    # Arrays and heterogeneous jobs
    JobCase("array", "--array=0-9", one(), count=10),
    JobCase("array with a throttle", "--array=0-9%3", one(), count=3),
    JobCase("array with steps", "--array=1-9:4", one(), count=3),
    JobCase(
        "heterogeneous",
        "-n 2 -c 4",
        (*one(8), *one(constraint="gpu", gres="gpu=1"), *alike(2, 8, 8192)),
        components=("--gpus=1 -C gpu", "-N 2 --mem=3000"),
        reason="ReqNodeNotAvail",
    ),
    JobCase("heterogeneous and held", "-H -n 2", reason="JobHeldUser", components=("-n 1",)),
    # Partitions
    JobCase("several partitions", "-p main,debug", one()),
    JobCase("several partitions of which one allows it", "-p main,bounded -N 3", alike(3)),
    JobCase("another partition", "-p debug"),
    JobCase("partition that is down", "-p closed", reason="PartitionDown"),
    # Jobs that new nodes would not start
    JobCase("licence", "-L matlab", one()),
    JobCase("qos without jobs", "--qos=none", reason="QOSMaxJobsPerUserLimit"),
    JobCase("account without jobs", "--account=idle", reason="AssocMaxJobsLimit"),
    JobCase("begin time", "--begin=now+1hour", reason="BeginTime"),
    JobCase("held by the user", "--hold", reason="JobHeldUser"),
    JobCase("held by an administrator", "", reason="JobHeldAdmin", then=("scontrol", "hold", "{job}")),
    JobCase(
        "named placeholder", "-w placeholder-general-1", one(node="placeholder-general-1"), reason="ReqNodeNotAvail"
    ),
    JobCase(
        "excluded placeholder", "-x placeholder-general-1", one(excluded_nodes=frozenset({"placeholder-general-1"}))
    ),
    JobCase("extra", "--extra=rack=7", one()),
    # Jobs that Slurm rejects
    JobCase("too many cpus", "-c 33", refused="Requested node configuration is not available"),
    JobCase("too many tasks for a node", "-N 1 -n 40", refused="Requested node configuration is not available"),
    JobCase("too much memory", "--mem=300000", refused="Requested node configuration is not available"),
    JobCase("too many gpus of a node", "--gres=gpu:h100:9", refused="Requested node configuration is not available"),
    JobCase("unknown gpu type", "--gres=gpu:a100:1", refused="Requested node configuration is not available"),
    JobCase(
        "gpus with and without a type",
        "--gres=gpu:4,gpu:h100:4",
        refused="Invalid GRES specification (with and without type identification)",
    ),
    JobCase("local disk", "--tmp=100", refused="Requested node configuration is not available"),
    JobCase("cores per socket", "--cores-per-socket=4 -n 2", refused="Requested node configuration is not available"),
    JobCase("unknown feature", "-C nosuch", refused="Invalid feature specification"),
    JobCase("counted alternatives", "-C '[general*1|compute*1]' -N 2", refused="Invalid feature specification"),
    JobCase("extra that is no comparison", "--extra=rack", refused="Invalid extra constraints specification"),
    JobCase("unknown node", "-w nowhere-1", refused="Invalid node name specified"),
    JobCase("unknown partition", "-p nosuch", refused="Invalid partition name specified"),
    JobCase("more nodes than placeholders", "-N 17", refused="Node count specification invalid"),
    JobCase("more cpus than all placeholders", "-n 257", refused="More processors requested than permitted"),
    JobCase("more nodes than the partition allows", "-p bounded -N 3", refused="Node count specification invalid"),
    JobCase(
        "more time than the partition allows",
        "-p bounded -t 120",
        refused="Requested time limit is invalid (missing or exceeds some limit)",
    ),
    JobCase("too many licences", "-L matlab:3", refused="Invalid license specification"),
    JobCase("unknown reservation", "--reservation=nosuch", refused="Requested reservation is invalid"),
    JobCase(
        "unknown account",
        "--account=nobody",
        refused="Invalid account or account/partition combination specified",
    ),
    # Jobs that wait beside a busy node
    JobCase("licences taken", "-t 60 -C busy -L matlab:1", reason="Licenses", stage="a busy node"),
    JobCase("qos used up", "-t 60 -C busy --qos=two -c 2", reason="QOSGrpCpuLimit", stage="a busy node"),
    JobCase("throttled array", "-t 60 --array=0-9%2 -C busy", reason="JobArrayTaskLimit", stage="a busy node"),
    JobCase("after another job", "-d afterok:{fill}", reason="Dependency", stage="a busy node"),
    JobCase("the only one of its name", "-d singleton -J fill", reason="Dependency", stage="a busy node"),
    JobCase("reservation to come", "--reservation=later", reason="Reservation", stage="a busy node"),
    JobCase("extra that the node has not", "-t 60 --extra=rack=7", one(), reason="Constraints", stage="a busy node"),
    JobCase("named node", f"-t 60 -w {BUSY} -c 4", one(4, node=BUSY), stage="a busy node"),
    JobCase(
        "named node among several", f"-t 60 -w {BUSY} -N 2 -c 4", (*one(4, node=BUSY), *one(4)), stage="a busy node"
    ),
)
