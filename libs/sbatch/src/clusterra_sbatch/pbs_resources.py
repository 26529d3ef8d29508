"""Translates the list of `#PBS -l`, such as `nodes=2:ppn=4,walltime=1:00:00`, as sbatch does."""

import re
from collections.abc import Iterator, Mapping

from clusterra_sbatch.words import Malformed

_SEPARATOR_BY_NAME = {"mpiprocs": ":", "ncpus": ":", "select": ":"}
"""What ends the value of a resource, where it is no comma."""
_NAMES = (
    *("accelerator", "arch", "cput", "file", "host", "mem", "mpiprocs", "naccelerators", "ncpus", "nice", "nodes"),
    *("opsys", "other", "pcput", "pmem", "proc", "pvmem", "select", "software", "vmem", "walltime"),
)
_ANY_CASE = frozenset({"accelerator", "mpiprocs", "naccelerators", "ncpus", "select"})
_OPTIONS = {
    "cput": "time",
    "pcput": "time",
    "walltime": "time",
    "nice": "nice",
    "file": "tmp",
    "mem": "mem",
    "select": "nodes",
    "ncpus": "mincpus",
    "mpiprocs": "ntasks-per-node",
}
_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,18}", re.ASCII)


def resources(text: str, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options of sbatch, by their long names, and their values. Raises Malformed.

    `given` has the values of the options so far, to which these are added one by one.
    """
    at = gpus = 0
    seen: set[str] = set()
    while at < len(text):
        name = next((name for name in _NAMES if _stands(text, at, name)), None)
        if name is None:
            at += 1
            continue
        at += len(name) + 1
        if name == "accelerator":
            gpus = max(gpus, 1) if text[at : at + 4].lower() == "true" else gpus
            continue
        value, at = _value(text, at, _SEPARATOR_BY_NAME.get(name, ","))
        if name in _OPTIONS:
            seen.add(name)
            # sbatch knows no unit of two letters in these two.
            shortened = value[:-1] if name in {"file", "mem"} and value[-1:] in {"b", "B"} else value
            yield _OPTIONS[name], shortened
        elif name == "nodes":
            yield from _nodes(value)
        elif name == "naccelerators":
            gpus = _positive(value)
        elif name == "proc":
            yield "constraint", f"{value},{given['constraint']}" if "constraint" in given else value
            _, at = _value(text, at, ",")
    if {"select", "ncpus", "mpiprocs"} <= seen:
        cpus, tasks = _positive(given["mincpus"]), _positive(given["ntasks-per-node"])
        if cpus > tasks:
            yield "cpus-per-task", str(cpus // tasks)
    if gpus:
        yield "gres", f"{given['gres']},gpu:{gpus}" if "gres" in given else f"gpu:{gpus}"


def _stands(text: str, at: int, name: str) -> bool:
    found = text[at : at + len(name) + 1]
    return (found.lower() if name in _ANY_CASE else found) == f"{name}="


def _value(text: str, at: int, separator: str) -> tuple[str, int]:
    end = text.find(separator, at)
    return (text[at:], len(text)) if end < 0 else (text[at:end], end + 1)


def _positive(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) <= 0:
        raise Malformed(f"{text!r} must be a number above zero")
    return int(text)


def _nodes(text: str) -> Iterator[tuple[str, str]]:
    """`nodes=`: numbers of nodes and names of nodes, with tasks and GPUs for each node."""
    nodes = tasks = 0
    names: list[str] = []
    at = 0
    while at < len(text):
        part = re.compile(r"[^+:]*").match(text, at)
        word = part.group() if part else ""
        following = at + len(word) + 1
        if word.startswith("gpus="):
            yield "gpus-per-node", word.removeprefix("gpus=")
        elif word.startswith("ppn="):
            tasks += _leading_number(word.removeprefix("ppn="))
        elif re.match(r"[0-9]", word):
            nodes += _leading_number(word)
        elif re.match(r"[A-Za-z]", word):
            names.append(word)
        else:
            following = at + 1
        at = following
    if nodes:
        yield "nodes", str(nodes)
    if tasks:
        yield "ntasks", str(tasks * (nodes or 1))
    if names:
        yield "nodelist", ",".join(names)


def _leading_number(text: str) -> int:
    found = re.match(r"\s*[+-]?[0-9]{1,18}", text, re.ASCII)
    return int(found.group()) if found else 0
