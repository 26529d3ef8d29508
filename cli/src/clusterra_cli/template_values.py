"""The values that commands take for a template: parameters, inputs, options of sbatch, a confirmed cost."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from clusterra_cli.job_script import dollars
from clusterra_cli.usage import WrongUsage

Values = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="A parameter, as JSON or as text.")
]
Inputs = Annotated[
    list[str] | None, typer.Option("--input", "-i", metavar="NAME=PATH", help="An input of the template.")
]
SbatchOptions = Annotated[
    list[str] | None,
    typer.Option("--sbatch", metavar="NAME=VALUE", help="An option of sbatch by its long name, such as time=2:00:00."),
]
Confirmed = Annotated[
    str | None, typer.Option("--confirmed-usd-per-hour", help="Confirm the cost of each of its jobs, in USD.")
]


@dataclass(frozen=True, slots=True)
class TemplateValues:
    """What a command takes for a template, as it is sent: only what is given."""

    params: dict[str, Any]
    inputs: dict[str, str]
    sbatch_override: dict[str, str]
    confirmed_usd_per_hour: float | None

    @property
    def body(self) -> dict[str, Any]:
        """The fields of a request."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


def template_values(
    values: Sequence[str] | None, inputs: Sequence[str] | None, options: Sequence[str] | None, confirmed: str | None
) -> TemplateValues:
    """The options --set, --input, --sbatch and --confirmed-usd-per-hour. Raises WrongUsage."""
    return TemplateValues(
        _values_of(values or ()),
        dict(_pairs("--input", inputs or ())),
        dict(_pairs("--sbatch", options or ())),
        None if confirmed is None else dollars(confirmed),
    )


def _values_of(given: Sequence[str]) -> dict[str, Any]:
    """The parameters of --set. Raises WrongUsage."""
    return {name: _value(text) for name, text in _pairs("--set", given)}


def _pairs(option: str, given: Sequence[str]) -> list[tuple[str, str]]:
    """Names with their values. Raises WrongUsage."""
    found = []
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise WrongUsage(f"{option} {each}: it must be NAME=VALUE")
        found.append((name, value))
    return found


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError:
        return text
