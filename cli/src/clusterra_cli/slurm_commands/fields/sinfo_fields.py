"""The fields of sinfo: by letters for `-o`, and by names for `-O`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from clusterra_cli.slurm_commands.fields import node_values
from clusterra_cli.slurm_commands.notation.columns import Field
from clusterra_cli.slurm_commands.notation.hostlists import compressed
from clusterra_cli.slurm_commands.notation.times import MINUTE, moment, span
from clusterra_cli.slurm_commands.records import Record, count, infinite, number, part, text, texts

OF_NODES = "ADNnCFHouUO"
"""The letters of what is summed or listed, by which nodes do not differ."""


@dataclass(frozen=True, slots=True)
class Line:
    """Some nodes of one partition, or none."""

    partition: Record
    nodes: tuple[Record, ...]

    @property
    def state(self) -> str:
        """The state of the nodes."""
        return node_values.node_state(self.nodes[0]) if self.nodes else "n/a"

    @property
    def short_state(self) -> str:
        """The short form of the same."""
        return node_values.short_state(self.nodes[0]) if self.nodes else "n/a"

    @property
    def rank(self) -> int:
        """Lines of a partition are sorted by it, the highest first."""
        found = texts(self.nodes[0], "state") if self.nodes else ()
        base = next((place for place, each in enumerate(node_values.BASE) if each in found), 0)
        return base + (100 if "DRAIN" in found else 0)


def _smallest(values: Iterable[int]) -> str:
    """The smallest of some numbers, with a `+` where others are larger."""
    found = sorted(values)
    if not found:
        return "0"
    return f"{found[0]}+" if found[-1] > found[0] else str(found[0])


def _least(name: str) -> Callable[[Line], str]:
    return lambda line: _smallest(count(each, name) for each in line.nodes)


def _first(value_of: Callable[[Record], str], nothing: str = "(null)") -> Callable[[Line], str]:
    return lambda line: value_of(line.nodes[0]) if line.nodes else nothing


def _joined(name: str) -> Callable[[Line], str]:
    return _first(lambda node: ",".join(texts(node, name)) or "(null)")


def _partition_name(line: Line) -> str:
    mark = "*" if "DEFAULT" in texts(line.partition, "flags") else ""
    return text(line.partition, "name") + mark


def _available(line: Line) -> str:
    return ",".join(texts(part(line.partition, "partition"), "state")).lower() or "up"


def _limit(line: Line) -> str:
    times = part(line.partition, "maximums")
    minutes = number(times, "time")
    return "infinite" if infinite(times, "time") or minutes is None else span(minutes * MINUTE)


def _default_time(line: Line) -> str:
    times = part(line.partition, "defaults")
    minutes = number(times, "time")
    return "infinite" if infinite(times, "time") else "n/a" if minutes is None else span(minutes * MINUTE)


def _counts(line: Line) -> tuple[int, int, int, int]:
    """The nodes that are allocated, idle, other and all."""
    states = [each.state.rstrip("*") for each in (Line(line.partition, (node,)) for node in line.nodes)]
    allocated = sum(each in ("allocated", "mixed", "completing", "draining") for each in states)
    idle = sum(each in ("idle", "reserved", "planned") for each in states)
    return allocated, idle, len(states) - allocated - idle, len(states)


def _cpus(line: Line) -> str:
    sums = [sum(each) for each in zip(*(node_values.cpus(node) for node in line.nodes), strict=True)] or [0] * 4
    return "/".join(map(str, sums))


def _shape(line: Line) -> str:
    return ":".join(_least(each)(line) for each in ("sockets", "cores", "threads"))


def _job_size(line: Line) -> str:
    most = number(part(line.partition, "maximums"), "nodes")
    least = max(count(part(line.partition, "minimums"), "nodes"), 1)
    return f"{least}-infinite" if most is None else str(least) if most == least else f"{least}-{most}"


def _shared(line: Line) -> str:
    return text(part(line.partition, "partition"), "oversubscribe") or "NO"


def _reason(node: Record) -> str:
    return text(node, "reason") or "none"


def _reason_time(node: Record) -> str:
    seconds = number(node, "reason_changed_at")
    return moment(seconds) if seconds else "Unknown"


def _free_memory(node: Record) -> str:
    value = number(node, "free_mem")
    return "N/A" if value is None else str(value)


def _most_cpus(line: Line) -> str:
    most = number(part(line.partition, "maximums"), "cpus_per_node")
    return "UNLIMITED" if most is None else str(most)


def _names(line: Line, name: str) -> str:
    return compressed(sorted(text(each, name) for each in line.nodes))


_LETTERS: Mapping[str, tuple[str, Callable[[Line], str]]] = {
    "a": ("AVAIL", _available),
    "A": ("NODES(A/I)", lambda line: "/".join(map(str, _counts(line)[:2]))),
    "b": ("ACTIVE_FEATURES", _joined("active_features")),
    "B": ("MAX_CPUS_PER_NODE", _most_cpus),
    "c": ("CPUS", _least("cpus")),
    "C": ("CPUS(A/I/O/T)", _cpus),
    "d": ("TMP_DISK", _least("temporary_disk")),
    "D": ("NODES", lambda line: str(len(line.nodes))),
    "e": ("FREE_MEM", _first(_free_memory, "N/A")),
    "E": ("REASON", _first(_reason, "none")),
    "f": ("AVAIL_FEATURES", _joined("features")),
    "F": ("NODES(A/I/O/T)", lambda line: "/".join(map(str, _counts(line)))),
    "g": ("GROUPS", lambda line: text(part(line.partition, "groups"), "allowed") or "all"),
    "G": ("GRES", _first(node_values.gres)),
    "h": ("OVERSUBSCRIBE", _shared),
    "H": ("TIMESTAMP", _first(_reason_time, "Unknown")),
    "i": ("RESERVATION", _first(lambda node: text(node, "reservation"), "")),
    "I": ("PRIO_JOB_FACTOR", lambda line: str(count(part(line.partition, "priority"), "job_factor"))),
    "l": ("TIMELIMIT", _limit),
    "L": ("DEFAULTTIME", _default_time),
    "m": ("MEMORY", _least("real_memory")),
    "M": ("PREEMPT_MODE", lambda _line: "OFF"),
    "n": ("HOSTNAMES", lambda line: _names(line, "hostname")),
    "N": ("NODELIST", lambda line: _names(line, "name")),
    "o": ("NODE_ADDR", lambda line: compressed(sorted({text(each, "address") for each in line.nodes}))),
    "O": ("CPU_LOAD", _first(node_values.load, "N/A")),
    "p": ("PRIO_TIER", lambda line: str(count(part(line.partition, "priority"), "tier"))),
    "P": ("PARTITION", _partition_name),
    "r": ("ROOT", lambda line: "yes" if "ROOT_ONLY" in texts(line.partition, "flags") else "no"),
    "R": ("PARTITION", lambda line: text(line.partition, "name")),
    "s": ("JOB_SIZE", _job_size),
    "S": ("ALLOCNODES", lambda line: text(part(line.partition, "nodes"), "allowed_allocation") or "all"),
    "t": ("STATE", lambda line: line.short_state),
    "T": ("STATE", lambda line: line.state),
    "u": ("USER", _first(lambda node: text(node, "reason_set_by_user") or "Unknown", "Unknown")),
    "U": ("USER", _first(lambda node: text(node, "reason_set_by_user") or "Unknown", "Unknown")),
    "v": ("VERSION", _first(lambda node: text(node, "version"), "")),
    "w": ("WEIGHT", _least("weight")),
    "X": ("SOCKETS", _least("sockets")),
    "Y": ("CORES", _least("cores")),
    "z": ("S:C:T", _shape),
    "Z": ("THREADS", _least("threads")),
}
_CUT = frozenset("abEfgGhiPRtTuUv")
LETTERS: Mapping[str, Field[Line]] = {
    letter: Field(header, value, letter in _CUT) for letter, (header, value) in _LETTERS.items()
}
_SAME = {
    "AllocNodes": "S",
    "Available": "a",
    "Cores": "Y",
    "CPUs": "c",
    "CPUsLoad": "O",
    "CPUsState": "C",
    "DefaultTime": "L",
    "Disk": "d",
    "Features": "f",
    "features_act": "b",
    "FreeMem": "e",
    "Gres": "G",
    "Groups": "g",
    "MaxCPUsPerNode": "B",
    "Memory": "m",
    "NodeAddr": "o",
    "NodeAI": "A",
    "NodeAIOT": "F",
    "NodeHost": "n",
    "NodeList": "N",
    "Nodes": "D",
    "OverSubscribe": "h",
    "Partition": "P",
    "PartitionName": "R",
    "PriorityJobFactor": "I",
    "PriorityTier": "p",
    "Reason": "E",
    "Root": "r",
    "Size": "s",
    "SocketCoreThread": "z",
    "Sockets": "X",
    "StateCompact": "t",
    "StateLong": "T",
    "Threads": "Z",
    "Time": "l",
    "TimeStamp": "H",
    "User": "u",
    "Version": "v",
    "Weight": "w",
}
NAMES: Mapping[str, Field[Line]] = {name: LETTERS[letter] for name, letter in _SAME.items()}
