"""Writes the models of the SDK, `libs/sdk/src/clusterra/models.py`, from the gateway's OpenAPI document.

Only the schemas that the SDK reads. They are made wider than the gateway's own, so that an older client reads the
answers of a newer gateway: texts have no list of values and no pattern, and the data of an event are an object.

`python tools/sdk_models.py` prints the module. `make docs` writes it, and `make lint` compares it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Container
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clusterra_gateway.http.routes.openapi import document
from route_table import route_table

NAMES = {
    "Profile": "Profile",
    "Clusters": "Clusters",
    "ClusterDetail": "ClusterDetail",
    "SubmittedJob": "SubmittedJob",
    "JobEstimate": "Estimate",
    "JobExplanation": "Explanation",
    "JobWithCost": "JobRecord",
    "JobPage": "JobPage",
    "EventPage": "EventPage",
    "CostReport": "CostReport",
    "NotificationsView": "Notifications",
    "QuotaList": "QuotaList",
    "BudgetList": "BudgetList",
    "LaunchableList": "LaunchableList",
    "Launched": "Launched",
    "Tokens": "Tokens",
    "MadeToken": "MadeToken",
    "LinkList": "SharedLinks",
    "OwnLinks": "OwnLinks",
    "MadeLink": "MadeLink",
    "CountedJobs": "JobCounts",
    "Timeline": "Timeline",
    "SubmittedScript": "SubmittedScript",
    "Workers": "Workers",
    "RunView": "Run",
    "ScheduleView": "Schedule",
    "BusCredentialView": "BusCredential",
    "SignedBusCredential": "SignedBusCredential",
    "WebhookView": "Webhook",
    "MadeWebhook": "MadeWebhook",
    "RotatedSecret": "RotatedSecret",
    "AttemptView": "WebhookAttempt",
    "DeliveryView": "WebhookDelivery",
    "SessionDetail": "Session",
    "StartedSession": "StartedSession",
    "EntryTicket": "EntryTicket",
    "MemberView": "Member",
    "ServiceAccount": "ServiceAccount",
    "FilePage": "FilePage",
    "DeletedFiles": "DeletedFiles",
    "MovedFile": "MovedFile",
    "BegunUpload": "BegunUpload",
    "Uploads": "Uploads",
    "UploadedParts": "UploadedParts",
    "CompletedUpload": "CompletedUpload",
    # What the schemas above refer to, and the SDK gives another name.
    "Job": "JobRecord",
    "ShapeView": "Shape",
    "QuotaView": "Quota",
    "BudgetView": "Budget",
    "TemplateView": "Launchable",
    "StepView": "RunStep",
    "LinkView": "SharedLink",
    "WorkerView": "Worker",
    "File": "StoredFile",
    "UploadedPartView": "UploadedPart",
}
"""The schemas that the SDK reads -> their names in the SDK."""
FREE = {("Event", "data")}
"""Fields that are any object."""
REFERENCE = "#/components/schemas/"
KEPT = (
    "type",
    "$ref",
    "items",
    "properties",
    "required",
    "anyOf",
    "additionalProperties",
    "default",
    "format",
    "description",
)
HEADER = (
    '''"""What the SDK reads of the gateway's answers, made by `make docs` from the OpenAPI document: do not edit."""'''
)


def wider(schema: Any, words: Container[str]) -> Any:
    """A schema as an older client may rely on it: types alone, in our names. `words`: the schemas that are texts."""
    if isinstance(schema, list):
        return [wider(each, words) for each in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref", "").removeprefix(REFERENCE)
    if name in words:
        return {"type": "string"}
    found = {
        each: wider(schema[each], words) for each in KEPT if each in schema and each not in ("properties", "default")
    }
    if "properties" in schema:
        found["properties"] = {field: wider(each, words) for field, each in schema["properties"].items()}
    if "default" in schema:
        found["default"] = schema["default"]
    if name:
        found["$ref"] = REFERENCE + NAMES.get(name, name)
    if "const" in schema or "enum" in schema:
        found.setdefault("type", "string")
    if found.get("additionalProperties") is False:
        del found["additionalProperties"]
    return found


def needed(schemas: dict[str, Any]) -> dict[str, Any]:
    """The schemas that the SDK reads, with all that they refer to, by their names in the SDK."""
    found: dict[str, Any] = {}
    words = {name for name, schema in schemas.items() if schema.get("type") == "string"}
    waiting = [name for name in NAMES if name != "Job"]
    while waiting:
        name = waiting.pop()
        if NAMES.get(name, name) in found or name == "Job" or name in words:
            continue
        schema = json.loads(json.dumps(schemas[name]))
        for model, field in FREE:
            if model == name:
                schema["properties"][field] = {"type": "object", "additionalProperties": True}
        found[NAMES.get(name, name)] = wider(schema, words)
        waiting += re.findall(rf'"{REFERENCE}(\w+)"', json.dumps(schema))
    return dict(sorted(found.items()))


def generated(schemas: dict[str, Any]) -> str:
    """The module of these schemas. Raises CalledProcessError."""
    told = {
        "openapi": "3.1.0",
        "info": {"title": "Clusterra", "version": "1"},
        "paths": {},
        "components": {"schemas": schemas},
    }
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "openapi.json"), Path(folder, "models.py")
        source.write_text(json.dumps(told))
        options = [
            *("--input", str(source), "--input-file-type", "openapi", "--output", str(target)),
            *("--output-model-type", "pydantic_v2.BaseModel", "--base-class", "clusterra.model_base.Model"),
            *("--target-python-version", "3.12", "--custom-file-header", HEADER, "--formatters", "builtin"),
            *("--use-schema-description", "--use-field-description", "--use-inline-field-description"),
            *("--use-standard-collections", "--use-union-operator", "--disable-future-imports"),
            *("--output-datetime-class", "datetime", "--strict-nullable", "--use-double-quotes"),
        ]
        subprocess.run([sys.executable, "-m", "datamodel_code_generator", *options], check=True, cwd=folder)
        return target.read_text()


def frozen(module: str) -> str:
    """The module with tuples in place of lists, because nobody changes an answer, and with docstrings as ours are."""
    while (changed := re.sub(r"\blist\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", r"tuple[\1, ...]", module)) != module:
        module = changed
    module = re.sub(r"= (?:Field\(\[\], validate_default=True\)|\[\])", "= ()", module)
    module = re.sub(r'"""\n    (?=\S)', '"""', module)
    return re.sub(r'^( +"""[^"\n]*)\n    """$', r'\1"""', module, flags=re.MULTILINE)


def formatted(module: str) -> str:
    """The module as ruff formats it."""
    ruff = Path(sys.executable).with_name("ruff")
    name = ["--stdin-filename", "libs/sdk/src/clusterra/models.py", "-"]
    linted = subprocess.run(
        [ruff, "check", "--fix", "--quiet", "--exit-zero", *name],
        input=module,
        text=True,
        check=True,
        capture_output=True,
    )
    return subprocess.run(
        [ruff, "format", "--quiet", *name], input=linted.stdout, text=True, check=True, capture_output=True
    ).stdout


def module() -> str:
    """The whole module."""
    schemas = json.loads(document(route_table()))["components"]["schemas"]
    return formatted(frozen(generated(needed(schemas))))


if __name__ == "__main__":
    sys.stdout.write(module())
