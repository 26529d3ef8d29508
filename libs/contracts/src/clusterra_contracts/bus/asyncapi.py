"""The AsyncAPI 3.0 document of the bus, made from the table of messages.

`python -m clusterra_contracts.bus.asyncapi` prints it; `docs/asyncapi.json` is that output, and a test compares them.
"""

import inspect
import json
import re
import sys
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from clusterra_contracts.bus.messages import PUBLICATIONS, REQUESTS
from clusterra_contracts.event_kinds import MEANINGS, example
from clusterra_contracts.events import Event, fact_model
from clusterra_contracts.rpc.reply import Reply

_REFERENCES = "#/components/schemas/{model}"
_PARAMETERS = {
    "tenant": "The id of a tenant: 1 to 39 lower-case letters, digits and `-`.",
    "cluster": "The id of a cluster of the tenant, in the same form.",
    "kind": "The kind of an event: two tokens, such as `job.failed`.",
    "service": "The name of a service, such as `gateway`.",
    "instance": "One process of the service.",
}
_SERVERS = {
    "central": {
        "host": "nats.example:4222",
        "protocol": "nats",
        "description": "The NATS servers of the central side, in operator mode. Each cluster has an account of its own,"
        " which shares nothing with those of other clusters. Edge-agents connect to it; the services are in the"
        " account of the control plane. Each login may publish and subscribe to what its permissions name, and to"
        " nothing else.",
        "security": [{"$ref": "#/components/securitySchemes/login"}],
    }
}
_SECURITY = {
    "login": {
        "type": "asymmetricEncryption",
        "description": "A user JWT of limited life, and the nkey (Ed25519) that signs the server's nonce.",
    }
}


def document() -> dict[str, Any]:
    """Returns the document as plain JSON values."""
    models: list[type[BaseModel]] = [p.message for p in PUBLICATIONS]
    for request in REQUESTS:
        models += [request.request, Reply[request.result]]  # type: ignore[name-defined]
    unique = list(dict.fromkeys(models))
    names, definitions = models_json_schema([(model, "serialization") for model in unique], ref_template=_REFERENCES)
    references = {model: names[model, "serialization"] for model in unique}

    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    for publication in PUBLICATIONS:
        name = _channel_name(publication.address)
        channels[name] = _channel(publication.address, {"message": publication.message}, references)
        if publication.message is Event and publication.sender == "*":
            channels[name]["messages"] = _event_messages(references[Event])
        operations[f"{name}.send"] = {
            "action": "send",
            "channel": {"$ref": f"#/channels/{name}"},
            "summary": f"{publication.sender} to {', '.join(publication.receivers)}",
        }
    for request in REQUESTS:
        name = _channel_name(request.address)
        reply = Reply[request.result]  # type: ignore[name-defined]
        channels[name] = _channel(request.address, {"request": request.request, "reply": reply}, references)
        operations[f"{name}.serve"] = {
            "action": "receive",
            "channel": {"$ref": f"#/channels/{name}"},
            "summary": f"{request.server} answers {', '.join(request.clients)}",
            "messages": [{"$ref": f"#/channels/{name}/messages/request"}],
            "reply": {"messages": [{"$ref": f"#/channels/{name}/messages/reply"}]},
        }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Clusterra bus",
            "version": "1",
            "description": "Messages between Clusterra's services over NATS. Headers: Nats-Msg-Id, traceparent, "
            "content-type, content-encoding, x-schema, x-queue-form.",
        },
        "defaultContentType": "application/json",
        "servers": _SERVERS,
        "channels": channels,
        "operations": operations,
        "components": {"schemas": definitions["$defs"], "securitySchemes": _SECURITY},
    }


def _channel_name(address: str) -> str:
    return re.sub(r"\.?\{\w+\}", "", address).replace("$KV.", "").strip(".")


def _channel(address: str, messages: dict[str, type[BaseModel]], references: dict[type[BaseModel], Any]) -> Any:
    return {
        "address": address,
        "parameters": {name: {"description": _PARAMETERS[name]} for name in re.findall(r"\{(\w+)\}", address)},
        "messages": {
            role: {
                "title": model.__name__,
                "summary": (inspect.getdoc(model) or "").partition("\n")[0],
                "payload": references[model],
            }
            for role, model in messages.items()
        },
    }


def _event_messages(event: Any) -> dict[str, Any]:
    """A message for each model of facts, with an example of each of its kinds."""
    messages: dict[str, Any] = {}
    for kind, meaning in MEANINGS.items():
        model = fact_model(kind)
        message = messages.setdefault(
            model.__name__,
            {
                "title": model.__name__,
                "summary": (inspect.getdoc(model) or "").partition("\n")[0],
                "payload": {
                    "allOf": [event, {"properties": {"data": {"$ref": _REFERENCES.format(model=model.__name__)}}}]
                },
                "examples": [],
            },
        )
        message["examples"].append(
            {"name": kind, "summary": meaning, "payload": example(kind).model_dump(mode="json", exclude_none=True)}
        )
    return messages


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=2, sort_keys=True)
    sys.stdout.write("\n")
