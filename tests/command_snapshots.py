"""Snapshots of what commands of `clusterra` print: recorded as text files, and compared.

A snapshot has each call of a command with its stdout, its stderr and its exit code. What differs from run to run, such
as a time, is replaced by RULES: each says what it takes, and nothing else is replaced. `CLUSTERRA_RECORD_SNAPSHOTS=1`
writes the files in place of comparing them.
"""

import difflib
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import typer
from clusterra_cli.app import command, main
from command_line import Ran

FOLDER = Path(__file__).parent / "recorded" / "command_line"
RECORD = "CLUSTERRA_RECORD_SNAPSHOTS"


@dataclass(frozen=True)
class Rule:
    """Replaces what differs from run to run. `digits`: each digit becomes 0, so that tables keep their widths."""

    what: str
    pattern: re.Pattern[str]
    replacement: str = ""
    digits: bool = False

    def applied(self, text: str) -> str:
        """The text without it."""
        if self.digits:
            return self.pattern.sub(lambda found: re.sub(r"\d", "0", found[0]), text)
        return self.pattern.sub(self.replacement, text)


def rule(what: str, pattern: str, replacement: str = "", *, digits: bool = False) -> Rule:
    """A rule with a pattern that is given as text."""
    return Rule(what, re.compile(pattern), replacement, digits)


RULES = (
    rule("a token", r"clusterra_[0-9a-f]{32}_[0-9a-f]{16}_[A-Za-z0-9_-]+", "<token>"),
    rule("a moment of the API", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "0000-00-00T00:00:00Z"),
    rule("a moment for people", r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\b", digits=True),
    rule("a day", r"\b20\d\d-\d\d-\d\d\b", digits=True),
    rule("a month", r"\b20\d\d-\d\d\b(?!-)", digits=True),
    rule("the id of a member or a run", r"\b[0-9a-f]{32}\b", "0" * 32),
    rule("the id of a token, a schedule or an event", r"\b[0-9a-f]{16}\b", "0" * 16),
    rule("an elapsed time below five minutes", r"\b00:0[0-4]:\d\d\b", digits=True),
    rule("a price for people", r"\$[\d,]+\.\d+", digits=True),
    rule("an amount of the API", r'(?<="amount": ")\d+\.\d+|(?<="amount":")\d+\.\d+', "0.000000"),
    rule("a sum of the profile", r'("(?:burn_rate_usd_per_hour|pending_bill_usd)": )[0-9.e-]+', r"\g<1>0.0"),
    rule("what a job has used", r'("(?:cpu_efficiency|peak_memory_mib)": ?)[0-9.e-]+', r"\g<1>null"),
    rule("a moment in the id of an event", r"\b1\d{9}\.\d+\b", "0.0"),
    rule("a code of the device flow", r"\b[A-Z]{4}-[A-Z]{4}\b", "<code>"),
)


@dataclass
class Snapshot:
    """The calls of one command, as they are recorded."""

    name: str
    """The words of the command, such as `context list`."""
    names: Mapping[str, str]
    """What this run has for something, such as its folder -> what stands for it."""
    rules: Sequence[Rule] = ()
    """Besides RULES."""
    parts: list[str] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """Where it is recorded."""
        return FOLDER / f"{self.name.replace(' ', '-')}.txt"

    def add(self, arguments: Sequence[str], ran: Ran) -> None:
        """Add a call."""
        words = " ".join(f"'{each}'" if re.search(r"[\s'\"\[;*]", each) or not each else each for each in arguments)
        part = f"$ clusterra {words}\n{ran.out}"
        part += "".join(f"! {line}\n" for line in ran.err.splitlines())
        self.parts.append(f"{part}= {ran.code}\n")

    @property
    def text(self) -> str:
        """The calls without what differs from run to run."""
        text = "\n".join(self.parts)
        for name, stands_for in sorted(self.names.items(), key=lambda each: -len(each[0])):
            text = text.replace(name, stands_for)
        for each in (*self.rules, *RULES):
            text = each.applied(text)
        return text

    def check(self) -> None:
        """Compare it with what is recorded, or record it."""
        if os.environ.get(RECORD):
            FOLDER.mkdir(parents=True, exist_ok=True)
            self.file.write_text(self.text)
            return
        assert self.file.exists(), f"{RECORD}=1 records {self.file.name}"
        recorded = self.file.read_text()
        lines = difflib.unified_diff(recorded.splitlines(), self.text.splitlines(), "recorded", "now", lineterm="", n=2)
        assert self.text == recorded, "\n".join([self.file.name, *lines])


def called(arguments: Sequence[str], variables: Mapping[str, str], stdin: str = "") -> Ran:
    """Run a command within this process: starting one for each call would take most of the time."""
    with _process(arguments, variables, stdin) as (out, err):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return Ran(code, out.getvalue().decode(), err.getvalue().decode())


@contextmanager
def _process(
    arguments: Sequence[str], variables: Mapping[str, str], stdin: str
) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """What a process of its own would have. No other code of this process may run meanwhile that uses these."""
    out, err = io.BytesIO(), io.BytesIO()
    before = (sys.argv, sys.stdin, sys.stdout, sys.stderr, dict(os.environ))
    streams = [io.TextIOWrapper(each, encoding="utf-8", write_through=True) for each in (out, err)]
    sys.argv = ["clusterra", *arguments]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    sys.stdout, sys.stderr = streams
    os.environ.update(variables)
    try:
        yield out, err
    finally:
        for each in streams:
            each.flush()
            each.detach()
        sys.argv, sys.stdin, sys.stdout, sys.stderr, environment = before
        os.environ.clear()
        os.environ.update(environment)


@dataclass(frozen=True)
class Leaf:
    """A command, with the names of its options."""

    name: str
    options: frozenset[str]


def leaves() -> list[Leaf]:
    """All commands of `clusterra`."""
    return list(_leaves(typer.main.get_command(command), ()))


def _leaves(found: object, path: tuple[str, ...]) -> Iterator[Leaf]:
    below = getattr(found, "commands", None)
    if below:
        if path and found.params:  # type: ignore[attr-defined]  # it is a command of its own, too
            yield _leaf(found, path)
        for name, each in below.items():
            yield from _leaves(each, (*path, name))
        return
    yield _leaf(found, path)


def _leaf(found: object, path: tuple[str, ...]) -> Leaf:
    options = [each for each in found.params if each.param_type_name == "option"]  # type: ignore[attr-defined]
    return Leaf(" ".join(path), frozenset(name for each in options for name in (*each.opts, *each.secondary_opts)))
