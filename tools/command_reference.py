"""Writes the reference of the command line: `docs/reference/*.md` for readers, `cli/man` for `man`.

`python tools/command_reference.py write` writes the files, as `make docs` does; `check` compares them, as `make lint`
does. The wheel of `clusterra-cli` has the manual pages as data, where pipx and packagers find them.
"""

import sys
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from pathlib import Path

from command_tree import Entry, Manual, own_manuals, slurm_manuals

ROOT = Path(__file__).parents[1]
MADE = "Made by `make docs` from the commands themselves. Do not edit."
OWN_TEXT = (
    "The program of users: jobs, their output, costs and files, over HTTP. Each option also stands in the answer of"
    " `clusterra COMMAND --help`."
)
SLURM_TEXT = (
    "Slurm's own commands over HTTP. The options are Slurm's, and mean what Slurm's manual says; those that are listed"
    " work here. `clusterra-slurm COMMAND` runs one, and `clusterra-slurm install FOLDER` makes links of their names."
)
VARIABLES = (
    Entry("CLUSTERRA_URL", "The gateway, in place of the context's."),
    Entry("CLUSTERRA_TOKEN", "A token, which goes before the stored one and is never stored."),
    Entry("CLUSTERRA_CLUSTER", "The cluster, in place of the context's."),
    Entry("CLUSTERRA_CONFIG", "The file of contexts, in place of config.toml in the platform's folder."),
    Entry("NO_COLOR", "Without colours, if it is not empty."),
)


def page(title: str, intro: str, more: str, manuals: Sequence[Manual]) -> str:
    """The page of a program in Markdown."""
    lines = [f"# {title}", "", f"<!-- {MADE} -->", "", intro, "", more, ""]
    for each in manuals:
        lines += [f"## {each.name}", "", *(_markdown(text) for text in each.paragraphs)]
        lines += ["```", each.usage, "```", ""]
        entries = [*each.arguments, *each.options]
        if any(entry.meaning for entry in entries):
            lines += ["| argument or option | meaning |", "|---|---|"]
            lines += [f"| `{_cell(entry.written)}` | {_cell(_words(entry.meaning))} |" for entry in entries]
            lines.append("")
        elif entries:
            lines += [", ".join(f"`{entry.written}`" for entry in entries), ""]
        lines += _epilog(each.epilog)
    return "\n".join(lines).rstrip("\n") + "\n"


def _epilog(texts: Iterable[str]) -> list[str]:
    """Paragraphs, and what is kept as it is as a block."""
    lines: list[str] = []
    block: list[str] = []
    for text in (*texts, ""):
        if text.startswith(" "):
            block.append(text.strip())
            continue
        if block:
            lines += ["```", *block, "```", ""]
            block = []
        if text:
            lines.append(_markdown(text))
    return lines


def _markdown(text: str) -> str:
    return f"{_words(text)}\n"


def _words(text: str) -> str:
    """Text in which nothing but code is markup."""
    parts = text.split("`")
    plain = [part if number % 2 else part.translate(_ESCAPED) for number, part in enumerate(parts)]
    return "`".join(plain)


_ESCAPED = str.maketrans({each: f"\\{each}" for each in "\\*_<>[]"})


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def manual_page(program: str, about: str, intro: str, manuals: Sequence[Manual]) -> str:
    """The page of a program for `man`, with the macros of man(7)."""
    lines = [
        f'.\\" {MADE}',
        f'.TH {_roff(program).upper()} 1 "" "Clusterra" "User Commands"',
        ".SH NAME",
        f"{_roff(program)} \\- {_roff(about)}",
        ".SH SYNOPSIS",
        f".B {_roff(program)}",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        _line(intro),
    ]
    own = next((each for each in manuals if each.name == program), None)
    if own is not None:
        lines += [".SH OPTIONS", *_tagged(own.options)]
    lines.append(".SH COMMANDS")
    for each in manuals:
        if each is own:
            continue
        lines += [f".SS {_roff(each.name)}", f".B {_roff(each.usage)}"]
        for text in each.paragraphs:
            lines += [".PP", _line(text)]
        lines += _tagged([*each.arguments, *each.options]) + _kept(each.epilog)
    if own is not None and own.epilog:
        lines += [".SH EXIT STATUS", *(_line(text) for text in own.epilog)]
    lines += [".SH ENVIRONMENT", *_tagged(VARIABLES)]
    return "\n".join(lines) + "\n"


def _tagged(entries: Sequence[Entry]) -> list[str]:
    if entries and not any(entry.meaning for entry in entries):
        return [".PP", _line(", ".join(entry.written for entry in entries))]
    return [line for entry in entries for line in (".TP", f".B {_roff(entry.written)}", _line(entry.meaning or "\\&"))]


def _kept(texts: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for text in texts:
        lines += [".br", _line(text)] if text.startswith(" ") else [".PP", _line(text)]
    return lines


def _roff(text: str) -> str:
    """Text in which nothing is a request or an escape of roff. Hyphens are those that can be copied."""
    return text.replace("`", "").replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq")


def _line(text: str) -> str:
    """A line that is text whatever it begins with."""
    text = text.strip() if text != "\\&" else ""
    return f"\\&{_roff(text)}" if not text or text[0] in ".'" else _roff(text)


def files() -> dict[Path, str]:
    """All files of the reference."""
    own, slurm = own_manuals(), slurm_manuals()
    guide = "[The command line](../guide/command-line.md) explains how they are used."
    slurm_guide = "[Slurm's commands](../guide/slurm-commands.md) explains what differs from Slurm."
    manual = ROOT / "cli" / "man" / "share" / "man" / "man1"
    return {
        ROOT / "docs" / "reference" / "clusterra.md": page("clusterra", OWN_TEXT, guide, own),
        ROOT / "docs" / "reference" / "clusterra-slurm.md": page("clusterra-slurm", SLURM_TEXT, slurm_guide, slurm),
        manual / "clusterra.1": manual_page(
            "clusterra", "submit jobs, follow them, and learn what they cost", OWN_TEXT, own
        ),
        manual / "clusterra-slurm.1": manual_page(
            "clusterra-slurm", "Slurm's own commands over HTTP", SLURM_TEXT, slurm
        ),
    }


def main(what: str) -> int:
    """Write the files, or print how they differ. Returns the exit code."""
    different = False
    for path, text in files().items():
        before = path.read_text() if path.exists() else ""
        if what == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif before != text:
            different = True
            name = str(path.relative_to(ROOT))
            sys.stdout.writelines(unified_diff(before.splitlines(True), text.splitlines(True), name, "commands", n=1))
    return int(different)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
