"""`sinfo`: partitions and their nodes, as lines of nodes that are alike."""

import os
import sys
import time
from collections.abc import Sequence

from clusterra_cli.getopt import Words, options
from clusterra_cli.slurm_commands.failures import CommandFailed, Refused
from clusterra_cli.slurm_commands.fields.sinfo_fields import LETTERS, NAMES, OF_NODES, Line
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation.columns import Column, NoField, by_letters, by_names, lines
from clusterra_cli.slurm_commands.notation.hostlists import BadHostlist, expanded
from clusterra_cli.slurm_commands.own_clusters import chosen_clusters
from clusterra_cli.slurm_commands.records import Record, objects, text, texts
from clusterra_cli.slurm_commands.terminal.command_lines import asked_about, read
from clusterra_cli.slurm_commands.terminal.printing import write_line

OPTIONS = options(
    "sinfo",
    none="all:a dead:d exact:e future:F hide help noheader:h long:l Node:N responding:r list-reasons:R summarize:s"
    " reservation:T verbose:v version:V local federation usage",
    required="iterate:i clusters:M nodes:n format:o Format:O partition:p sort:S states:t cluster state",
    optional="json yaml",
    same={"cluster": "clusters", "state": "states"},
    unsupported="iterate reservation yaml federation dead responding future exact sort",
)
NORMAL = "%9P %.5a %.10l %.6D %.6t %N"
LONG = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N"
SUMMARY = "%9P %.5a %.10l %.16F %N"
type _Columns = list[Column[Line]]


def main(arguments: Sequence[str]) -> int:
    """Print partitions and nodes. Raises CommandFailed."""
    words = read(OPTIONS, arguments)
    if asked_about(OPTIONS, words):
        return 0
    if words.others:
        raise CommandFailed(f"sinfo: error: Unrecognized option: {words.others[0]}")
    gateway = Gateway()
    named = chosen_clusters("sinfo", words, gateway)
    try:
        partitions = objects(gateway.slurm("slurm/partitions/"), "partitions")
        nodes = objects(gateway.slurm("slurm/nodes/"), "nodes")
    except Refused as error:
        raise CommandFailed(f"slurm_load_partitions: {error}") from None
    if words.has("json"):
        import json

        write_line(json.dumps({"partitions": partitions, "nodes": nodes, "errors": [], "warnings": []}))
        return 0
    columns, keys = _columns(words, nodes)
    shown = _lines(words, partitions, nodes, keys)
    top = [f"CLUSTER: {each}" for each in named]
    if words.has("long") and not words.has("noheader"):
        top.append(time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(time.time())))
    sys.stdout.write("".join(f"{line}\n" for line in top + lines(columns, shown, header=not words.has("noheader"))))
    return 0


def _columns(words: Words, nodes: Sequence[Record]) -> tuple[_Columns, _Columns]:
    """The columns, and those by which nodes are alike."""
    given = next((each for each in reversed(words.options) if each.name in ("format", "Format")), None)
    names = max([len(text(each, "name")) for each in nodes] + [8])
    normal = LONG if words.has("long") else SUMMARY if words.has("summarize") else NORMAL
    if words.has("Node"):
        ends = "%.11T %4c %.8z %.6m %.8d %.6w %.8f %20E" if words.has("long") else "%6t"
        normal = f"%{names}N %.6D %.9P {ends}"
    elif words.has("list-reasons"):
        normal = "%20E %9u %19H %N"
    try:
        if given is not None and given.name == "Format":
            columns = by_names(given.value or "", NAMES)
        else:
            form = given.value if given is not None else os.environ.get("SINFO_FORMAT", normal)
            columns = by_letters(form or normal, LETTERS)
    except NoField as error:
        raise CommandFailed(f"sinfo: error: Invalid node format specification: {error}") from None
    summed = {LETTERS[letter].value for letter in OF_NODES}
    return columns, [each for each in columns if each.value not in summed]


def _lines(words: Words, partitions: Sequence[Record], nodes: Sequence[Record], keys: _Columns) -> list[Line]:
    wanted = words.items("partition")
    states = [each.lower() for each in words.items("states") if each.lower() != "all"]
    try:
        only = {name for each in words.items("nodes") for name in expanded(each)}
    except BadHostlist as error:
        raise CommandFailed(f"sinfo: error: invalid list of nodes: {error}") from None
    found: list[Line] = []
    for partition in partitions:
        if wanted and text(partition, "name") not in wanted:
            continue
        members = [
            each
            for each in nodes
            if text(partition, "name") in texts(each, "partitions")
            and (not only or text(each, "name") in only)
            and (not states or _in_states(each, states))
            and not (words.has("list-reasons") and not text(each, "reason"))
        ]
        found += _alike(words, partition, members, keys)
    return found


def _alike(words: Words, partition: Record, nodes: Sequence[Record], keys: _Columns) -> list[Line]:
    """The lines of a partition: a line for each node with --Node, else for all nodes whose values are the same."""
    if words.has("Node"):
        return [Line(partition, (each,)) for each in sorted(nodes, key=lambda node: text(node, "name"))]
    if not nodes:
        narrowed = words.has("states", "nodes", "list-reasons")
        return [] if narrowed else [Line(partition, ())]
    groups: dict[tuple[str, ...], list[Record]] = {}
    for node in nodes:
        groups.setdefault(tuple(each.value(Line(partition, (node,))) for each in keys), []).append(node)
    return sorted((Line(partition, tuple(each)) for each in groups.values()), key=lambda line: line.rank, reverse=True)


def _in_states(node: Record, wanted: Sequence[str]) -> bool:
    line = Line({}, (node,))
    names = {line.state.rstrip("*~#%$@^-+"), line.short_state.rstrip("*~#%$@^-+")}
    flags = {each.lower() for each in texts(node, "state")}
    return any(name in wanted for name in names | flags) or any(
        set(each.split("&")) <= names | flags for each in wanted
    )
