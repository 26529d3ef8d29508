"""Writes the console's types of the API, `console/src/api/schema.d.ts`, from the gateway's OpenAPI document.

Only what a browser may call, and only types: Slurm's own protocol, SCIM and what services tell each other are left out,
and so are all texts, which the document itself has.

`python tools/console_types.py` prints the file. `make docs` writes it, and `make lint` compares it. It needs Node in
PATH, and `console/openapi/node_modules`.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clusterra_gateway.http.routes.openapi import document, used
from route_table import route_table

GENERATOR = Path(__file__).parents[1] / "console/openapi/node_modules/openapi-typescript/bin/cli.js"
OPTIONS = ("--default-non-nullable=false", "--root-types", "--root-types-no-schema-prefix")
HEADER = "// Made by `make docs` from the gateway's OpenAPI document: do not edit.\n"
LEFT_OUT = re.compile(r"/$|/assets/|/v1/clusters/\{cluster_id}/slurm|/v1/tenants/\{tenant_id}/scim/|/v1/internal/")
"""How the paths begin that the console does not call."""
TEXTS = {"title", "summary", "examples", "example", "default", "format", "pattern"}
"""What a schema or an operation says only to people, or only when a value is checked."""


def types_only(described: Any) -> Any:
    """A part of the document without TEXTS, links and headers of answers. A `description` that is required is empty."""
    if isinstance(described, list):
        return [types_only(each) for each in described]
    if not isinstance(described, dict):
        return described
    found: dict[str, Any] = {}
    for key, part in described.items():
        if key == "properties":
            found[key] = {name: types_only(schema) for name, schema in part.items()}
        elif key == "description":
            found |= {key: ""} if "content" in described or "headers" in described else {}
        elif key not in TEXTS and key not in ("links", "headers"):
            found[key] = types_only(part)
    return found


def reduced(told: dict[str, Any]) -> dict[str, Any]:
    """The document with the paths, the answers and the schemas that the console may use."""
    paths = types_only({path: each for path, each in told["paths"].items() if not LEFT_OUT.match(path)})
    named = set(re.findall(r'"#/components/responses/(\w+)"', json.dumps(paths)))
    responses = {name: types_only(each) for name, each in told["components"]["responses"].items() if name in named}
    schemas = types_only({"properties": told["components"]["schemas"]})["properties"]
    kept = {"schemas": used(schemas, [paths, responses]), "responses": responses}
    info = {"title": "Clusterra", "version": "1"}
    return {"openapi": told["openapi"], "info": info, "paths": paths, "components": kept}


def generated(told: dict[str, Any]) -> str:
    """The types of a document. Raises CalledProcessError."""
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "openapi.json"), Path(folder, "schema.d.ts")
        source.write_text(json.dumps(told))
        command = ["node", str(GENERATOR), str(source), *OPTIONS, "-o", str(target)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
        return HEADER + target.read_text()


if __name__ == "__main__":
    sys.stdout.write(generated(reduced(json.loads(document(route_table())))))
