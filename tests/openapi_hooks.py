"""Hooks of Schemathesis, which loads this file: cases name things that exist, so that they get past the first check."""

import json
import os
from typing import Any

import schemathesis
from schemathesis import Case, GenerationMode, HookContext
from schemathesis.core.parameters import ParameterLocation

EXISTING: dict[str, list[str]] = json.loads(os.environ["OPENAPI_EXISTING"])
"""Name of a path parameter -> values that exist. The first is used always, the others by turns."""
ALWAYS = frozenset({"cluster_id", "version"})
"""Without these, nearly every case would be the same 404."""
PATH = "path"
"""Not a parameter of a path: the file of an upload, in the query or the body."""

TOKENS = ("Authorization", "X-SLURM-USER-TOKEN")


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Replace some of the generated ids, where the case is not about a malformed one."""
    if not _is_negative(case, ParameterLocation.HEADER):
        # The run has a session. A generated token beside it would be refused before anything else is looked at.
        for header in TOKENS:
            case.headers.pop(header, None)
    if _is_negative(case, ParameterLocation.PATH):
        return
    if "upload_id" in case.path_parameters:
        for place, fields in ((ParameterLocation.QUERY, case.query), (ParameterLocation.BODY, case.body)):
            if isinstance(fields, dict) and PATH in fields and not _is_negative(case, place):
                fields[PATH] = EXISTING[PATH][0]
    for name, values in EXISTING.items():
        if name in case.path_parameters:
            number = sum(map(ord, str(case.path_parameters[name])))
            if name in ALWAYS:
                case.path_parameters[name] = values[0]
            elif number % 4:
                case.path_parameters[name] = values[number // 4 % len(values)]
    # One key with different bodies is refused, as it should be.
    case.headers.pop("Idempotency-Key", None)


def _is_negative(case: Case[Any], place: ParameterLocation) -> bool:
    part = case.meta.components.get(place) if case.meta is not None else None
    return part is not None and part.mode is GenerationMode.NEGATIVE
