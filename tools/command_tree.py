"""What the reference says of `clusterra` and of Slurm's commands, read from the programs themselves.

Whatever commands there are, they are found: in typer's tree, and in `OPTIONS` of the modules of Slurm's commands.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from clusterra_cli.app import command
from clusterra_cli.slurm_commands import program


@dataclass(frozen=True, slots=True)
class Entry:
    """An argument or an option: how it is written, and what it means."""

    written: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Manual:
    """One command. Paragraphs are texts without line ends; a paragraph that begins with blanks is kept as it is."""

    name: str
    """All its words, such as `clusterra tokens list`."""
    usage: str
    paragraphs: tuple[str, ...]
    arguments: tuple[Entry, ...]
    options: tuple[Entry, ...]
    epilog: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The first sentence, without its full stop."""
        first = self.paragraphs[0] if self.paragraphs else ""
        return re.split(r"(?<=\w)\.(?:\s|$)", first, maxsplit=1)[0]


def own_manuals() -> list[Manual]:
    """`clusterra` and all its commands, those of a group behind the group, in the order of `--help`."""
    root: Any = typer.main.get_command(command)
    return list(_manuals(root, root.context_class(root, info_name="clusterra", **root.context_settings)))


def _manuals(told: Any, context: Any) -> Iterator[Manual]:
    # typer has no public type for what it makes of functions.
    entries: dict[str, list[Entry]] = {"argument": [], "option": []}
    for parameter in told.get_params(context):
        record = None if parameter.hidden else parameter.get_help_record(context)
        if record is not None:
            entries[parameter.param_type_name].append(Entry(record[0], re.sub(r"\s+", " ", record[1]).strip()))
    yield Manual(
        context.command_path,
        " ".join([context.command_path, *told.collect_usage_pieces(context)]),
        paragraphs(told.help or ""),
        tuple(entries["argument"]),
        tuple(entries["option"]),
        paragraphs(told.epilog or ""),
    )
    for name, each in getattr(told, "commands", {}).items():
        if not each.hidden:
            yield from _manuals(each, each.context_class(each, info_name=name, parent=context))


def slurm_manuals() -> list[Manual]:
    """Slurm's commands as `clusterra-slurm` has them."""
    return [_slurm_manual(name) for name in program.COMMANDS]


def _slurm_manual(name: str) -> Manual:
    module = import_module(f"clusterra_cli.slurm_commands.{name}")
    known = module.OPTIONS
    letters = {long: letter for letter, long in known.letters.items()}
    values = {"none": "", "required": "=VALUE", "optional": "[=VALUE]"}
    written = [
        (f"-{letters[long]}, " if long in letters else "") + f"--{long}{values[takes]}"
        for long, takes in sorted(known.takes.items())
        if long not in known.unsupported
    ]
    about = inspect.getdoc(module) or ""
    text = about.partition(": ")[2] or about
    text = text[:1].upper() + text[1:]
    return Manual(name, f"{name} [OPTIONS] ...", paragraphs(text), (), tuple(Entry(each, "") for each in written), ())


def paragraphs(text: str) -> tuple[str, ...]:
    """The paragraphs of a help text. Lines below a `\\b` are kept, as typer does."""
    found = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        first, _, rest = block.partition("\n")
        if first.strip() == "\b":
            found += [f"  {line.strip()}" for line in rest.split("\n")]
        else:
            found.append(" ".join(block.split()))
    return tuple(each for each in found if each.strip())
