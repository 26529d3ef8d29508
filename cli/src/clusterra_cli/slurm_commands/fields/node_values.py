"""What Slurm's commands show of one node, from slurmrestd's record of it."""

from clusterra_cli.slurm_commands.records import Record, count, number, text, texts

BASE = ("DOWN", "ERROR", "UNKNOWN", "IDLE", "ALLOCATED", "MIXED", "FUTURE")
"""The states of which a node has one, from the lowest rank of sinfo on."""
_SHORT = {"allocated": "alloc", "draining": "drng", "drained": "drain", "completing": "comp", "maintenance": "maint"}
_SHORT |= {"reserved": "resv", "mixed": "mix", "unknown": "unk", "future": "futr", "planned": "plnd", "error": "err"}
_SHORT |= {"powering_down": "pow_dn", "powering_up": "pow_up", "blocked": "block"}


def node_state(node: Record) -> str:
    """The one name of a node's state, such as `draining` for a busy node that is to take no more jobs."""
    found = set(texts(node, "state"))
    base = next((each for each in BASE if each in found), "UNKNOWN")
    if "DRAIN" in found and base != "FUTURE":
        busy = base in ("ALLOCATED", "MIXED") or "COMPLETING" in found
        state = "draining" if busy else "drained"
    elif "MAINTENANCE" in found:
        state = "maint"
    elif "COMPLETING" in found:
        state = "completing" if base not in ("ALLOCATED", "MIXED") else base.lower()
    elif "RESERVED" in found and base == "IDLE":
        state = "reserved"
    elif "PLANNED" in found and base == "IDLE":
        state = "planned"
    else:
        state = base.lower()
    return state + ("*" if "NOT_RESPONDING" in found else "")


def short_state(node: Record) -> str:
    """The short form of the same."""
    state = node_state(node)
    name = state.rstrip("*")
    return _SHORT.get(name, name) + state[len(name) :]


def cpus(node: Record) -> tuple[int, int, int, int]:
    """The CPUs that are allocated, idle, other and all."""
    total = count(node, "cpus")
    allocated = count(node, "alloc_cpus")
    usable = not set(texts(node, "state")) & {"DOWN", "DRAIN", "ERROR", "FAIL"}
    idle = total - allocated if usable else 0
    return allocated, idle, total - allocated - idle, total


def load(node: Record) -> str:
    """The load of the CPUs, in hundredths in the record."""
    value = number(node, "cpu_load")
    return "N/A" if value is None else f"{value / 100:.2f}"


def gres(node: Record) -> str:
    """The generic resources."""
    return text(node, "gres") or "(null)"
