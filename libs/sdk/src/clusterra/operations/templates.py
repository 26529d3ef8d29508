"""Templates: what can be launched, and launches."""

from collections.abc import Mapping
from typing import Any

from clusterra.exchange import Request, Steps
from clusterra.models import Launchable, LaunchableList, Launched
from clusterra.operations.api import Api, segment

LAUNCHABLES = "/v1/launchables"


def launchables(api: Api) -> Steps[list[Launchable]]:
    """The templates, presets and workflows that can be launched."""
    return list((yield from api.read(LaunchableList, LAUNCHABLES)).launchables)


def launch(api: Api, launchable_id: str, values: Mapping[str, Any], key: str | None) -> Steps[Launched]:
    """Launch a template, once. `values` are the fields of the API's LaunchRequest; those that are None are not sent."""
    path = f"{LAUNCHABLES}/{segment(launchable_id)}/submit"
    given = {name: value for name, value in values.items() if value is not None}
    request = Request("POST", path, body=given, idempotency_key=key)
    return api.parsed(Launched, (yield from api.ask(request)))
