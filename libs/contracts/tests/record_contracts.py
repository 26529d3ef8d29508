"""`make record-contracts`: the schemas of all messages, as this release writes and reads them.

It is called at a release, and writes `recorded/generation-<GENERATION>.json`, which test_compatibility.py compares
later code with.
"""

import json
from pathlib import Path
from typing import Any, Literal

from clusterra_contracts.agent_http import AgentHeartbeat, AgentHeartbeatReply
from clusterra_contracts.bus.messages import PUBLICATIONS, REQUESTS
from clusterra_contracts.rpc.reply import Reply
from clusterra_contracts.versions import GENERATION
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

FILE = Path(__file__).parent / "recorded" / f"generation-{GENERATION}.json"
_PROSE = ("title", "description", "examples")


def messages() -> dict[str, type[BaseModel]]:
    """The model of each message, by its address and role."""
    found: dict[str, type[BaseModel]] = {each.address: each.message for each in PUBLICATIONS}
    for request in REQUESTS:
        found[f"{request.address} request"] = request.request
        found[f"{request.address} reply"] = Reply[request.result]  # type: ignore[name-defined]
    return {**found, "agent heartbeat": AgentHeartbeat, "agent heartbeat reply": AgentHeartbeatReply}


def schemas(mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """`messages` and `definitions`, as messages are read (validation) or written (serialization)."""
    models = messages()
    refs, definitions = models_json_schema([(model, mode) for model in dict.fromkeys(models.values())])
    return {
        "messages": {address: refs[model, mode] for address, model in models.items()},
        "definitions": without_prose(definitions["$defs"]),
    }


def without_prose(node: Any, *, names: bool = True) -> Any:
    """A copy of a schema without its texts for people. `names`: the keys of this level are names, no keywords."""
    if isinstance(node, dict):
        return {
            key: without_prose(value, names=not names and key in ("properties", "patternProperties"))
            for key, value in node.items()
            if names or key not in _PROSE
        }
    return [without_prose(item, names=False) for item in node] if isinstance(node, list) else node


def record() -> dict[str, Any]:
    """The schemas of both directions."""
    return {"read": schemas("validation"), "written": schemas("serialization")}


def text(recording: dict[str, Any]) -> str:
    """A recording as JSON with one line for each message and each definition."""
    directions = []
    for direction, parts in sorted(recording.items()):
        groups = []
        for group, schemas_by_name in sorted(parts.items()):
            lines = [
                f"   {json.dumps(name)}: {json.dumps(schema, sort_keys=True)}"
                for name, schema in sorted(schemas_by_name.items())
            ]
            groups.append(f'  "{group}": {{\n' + ",\n".join(lines) + "\n  }")
        directions.append(f' "{direction}": {{\n' + ",\n".join(groups) + "\n }")
    return "{\n" + ",\n".join(directions) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(record()))
