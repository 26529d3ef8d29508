"""Reads the provision file. `clusterra-admin provision schema` prints its schema."""

from pathlib import Path
from typing import Any

import yaml
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.tenants.specification import ProvisionFile
from pydantic import ValidationError

from clusterra_admin.terminal import wrong_fields


def read(file: Path) -> ProvisionFile:
    """Reads a file in YAML or JSON. Raises InvalidRequest, which names the mistake."""
    try:
        return ProvisionFile.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise InvalidRequest(f"{file}: {wrong_fields(error)}") from error
    except OSError as error:
        raise InvalidRequest(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{file}: not text in UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise InvalidRequest(f"{file}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidRequest(f"{file}: {_yaml_mistake(error)}") from None


def _yaml_mistake(error: Exception) -> str:
    """What is wrong with the YAML, and where. Not the line itself: there may be a secret in it."""
    mark = getattr(error, "problem_mark", None)
    place = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
    return f"not valid YAML{place}"


def schema() -> dict[str, Any]:
    """The JSON Schema of the provision file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ProvisionFile.model_json_schema(mode="validation"),
        "title": "Provision file of clusterra-admin",
    }
