"""Records the gateway's OpenAPI document of a release, without prose: `make record-contracts` calls it."""

import json
from pathlib import Path
from typing import Any

from clusterra_gateway.http.routes.openapi import document
from record_contracts import without_prose
from route_table import route_table

FILE = Path(__file__).parent / "recorded" / "openapi.json"


def record() -> dict[str, Any]:
    """Paths and components, as clients rely on them. Each response stands where operations refer to it."""
    whole = json.loads(document(route_table()))
    shared = whole["components"]["responses"]
    for item in whole["paths"].values():
        for operation in item.values():
            operation["responses"] = {
                status: shared[response["$ref"].rpartition("/")[2]] if "$ref" in response else response
                for status, response in operation["responses"].items()
            }
    schemas = {name: without_prose(schema, names=False) for name, schema in whole["components"]["schemas"].items()}
    paths = {
        path: {method: without_prose(operation, names=False) for method, operation in item.items()}
        for path, item in whole["paths"].items()
    }
    recording: dict[str, Any] = {"paths": paths, "components": {"schemas": schemas}}
    return recording


def text(recording: dict[str, Any]) -> str:
    """A recording as JSON with one line for each path and each schema."""

    def lines(items: dict[str, Any]) -> str:
        return ",\n".join(f"  {json.dumps(name)}: {json.dumps(each, sort_keys=True)}" for name, each in items.items())

    paths, schemas = lines(recording["paths"]), lines(recording["components"]["schemas"])
    return f'{{\n "paths": {{\n{paths}\n }},\n "components": {{"schemas": {{\n{schemas}\n }}}}\n}}\n'


if __name__ == "__main__":
    FILE.write_text(text(record()))
