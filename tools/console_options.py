"""Writes `console/src/submit/script/options.json`, sbatch's options for the console's editor, from `clusterra_sbatch`.

`python tools/console_options.py` prints the file. `make docs` writes it, and `make lint` compares it. What a value must
be is found by giving the option values that only some kinds take, so that the table cannot say anything else.
"""

import json
import sys
from datetime import UTC, datetime
from typing import Any

from clusterra_sbatch import translations
from clusterra_sbatch.options import LONG, Option
from clusterra_sbatch.values import OptionValue, Untranslatable

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROBE = "\x01?"
"""No kind of value that has a form takes this text."""
LONGER = "1@1"
"""Taken only by an option whose value is more than the number that it begins with."""
REJECTED = translations.reject("").__code__
KINDS = {
    "must be an integer": "integer",
    "must be a size, such as 500M or 2G": "size",
    "must be a time, such as 30 (minutes), 1:30:00 or 2-12": "duration",
    "must be a number of nodes, such as 2 or 2-4": "nodes",
    "must be a number of GPUs, such as 2 or h100:2": "gpus",
}
"""The forms that the console checks by itself, by what is said of a value without the form."""


def _refusal(option: Option, value: str) -> str:
    """Why the option does not take the value; empty where it does."""
    try:
        option.translate(OptionValue(value, NOW))
    except Untranslatable as error:
        return str(error)
    return ""


def _entry(option: Option) -> dict[str, Any]:
    """An option with what the editor says of it. `refused` and `warning` are left out where there is none."""
    entry: dict[str, Any] = {"long": option.long, "short": option.short, "takes": option.takes_value}
    if getattr(option.translate, "__code__", None) is REJECTED:
        return entry | {"refused": _refusal(option, "")}
    if option.warning:
        entry["warning"] = option.warning
    if (kind := KINDS.get(_refusal(option, PROBE))) and _refusal(option, LONGER):
        entry["kind"] = kind
        if kind == "integer":
            entry["least"] = 0 if _refusal(option, "0") == "" else 1
    return entry


def table() -> str:
    """All options by their names, as JSON with one option a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(_entry(LONG[name]))}" for name in sorted(LONG)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(table())
