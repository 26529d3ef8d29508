"""The JSON of a body. Slurm passes on names in any encoding."""

import json
from typing import Any

import orjson


def content_of(body: bytes) -> Any:
    """Return the JSON of a body, with bytes that are not UTF-8 replaced. Raises ValueError."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.decode(errors="replace")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        # Unlike orjson, it accepts `NaN` and lone surrogates.
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("the body is nested too deeply") from error
