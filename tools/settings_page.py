"""Prints `docs/operations/settings.md`: every setting of every service, from the settings models.

`make docs` writes the page, `make lint` compares it. The meaning of a setting is the docstring below its field.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from clusterra_edge_agent.settings import Settings as EdgeAgentSettings
from clusterra_events.settings import Settings as EventsSettings
from clusterra_gateway.settings import Settings as GatewaySettings
from clusterra_proxy.settings import Settings as ProxySettings
from clusterra_runtime.settings import ServiceSettings
from clusterra_scaler.settings import Settings as ScalerSettings
from field_docstrings import meanings
from pydantic.fields import FieldInfo

SERVICES: Mapping[str, type[ServiceSettings]] = {
    "gateway": GatewaySettings,
    "proxy": ProxySettings,
    "scaler": ScalerSettings,
    "edge-agent": EdgeAgentSettings,
    "events": EventsSettings,
}

HEAD = """\
# Settings

<!-- Made by `make docs` from the settings models. Do not edit. -->

Each service reads its settings from environment variables. A variable without a default is required. A tuple is a JSON
list, such as `["chroot", "/srv/slurm"]`. A secret is never a setting: a setting names its file.

The gateway, the scaler and the events service also use DynamoDB. They find it by the AWS SDK's own variables:
`AWS_ENDPOINT_URL`, `AWS_REGION`, and the SDK's credentials.

What a cluster may cost and how it is scaled is no setting of a service: see [policy.md](policy.md).
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as the page shows it."""

    variable: str
    type: str
    default: str
    meaning: str


def rows(model: type[ServiceSettings], names: Iterable[str]) -> list[Row]:
    """The settings of these names."""
    prefix = model.model_config.get("env_prefix", "").upper()
    told = meanings(model, ServiceSettings)
    return [
        Row(
            variable=f"{prefix}{name.upper()}",
            type=_type(model.model_fields[name]),
            default=_default(model.model_fields[name]),
            meaning=told.get(name, ""),
        )
        for name in names
    ]


def page() -> str:
    """The whole page: the settings of all services first, then what each service adds."""
    shared = list(ServiceSettings.model_fields)
    parts = [HEAD, _section("Every service", rows(ServiceSettings, shared))]
    for service, model in SERVICES.items():
        own = [name for name in model.model_fields if name not in ServiceSettings.model_fields]
        parts.append(_section(service, rows(model, own)))
    return "\n".join(parts)


def _section(title: str, settings: Iterable[Row]) -> str:
    lines = [f"## {title}", "", "| variable | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{row.variable}` | {row.type} | {row.default} | {_cell(row.meaning)} |" for row in settings]
    return "\n".join(lines) + "\n"


def _type(field: FieldInfo) -> str:
    limits = ", ".join(
        f"{sign} {getattr(limit, name)}"
        for limit in field.metadata
        for name, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
        if getattr(limit, name, None) is not None
    )
    return f"{_type_name(field.annotation)} ({limits})" if limits else _type_name(field.annotation)


def _type_name(annotation: object) -> str:
    """A type in the reader's words. None among the types is the default `none` and is left out."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in inner)
    if origin is Annotated:
        return _type_name(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(_type_name(each) for each in inner if each is not type(None))
    if origin is dict:
        return f"JSON object of {_type_name(inner[1])}"
    if origin is tuple:
        return f"tuple of {_type_name(inner[0])}"
    assert isinstance(annotation, type), f"a setting of the type {annotation} has no name here yet"
    return annotation.__name__.lower()


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is dict:
        return "none"
    if field.default_factory is not None:
        return "made at the start"
    match field.default:
        case None | "" | ():
            return "none"
        case bool():
            return f"`{str(field.default).lower()}`"
        case float() if field.default.is_integer():
            return f"`{field.default:.0f}`"
        case tuple() as several:
            return f"`{json.dumps([str(each) for each in several])}`"
    return f"`{field.default}`"


def _cell(text: str) -> str:
    """Escapes the bar, which would end a cell, also inside code."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
