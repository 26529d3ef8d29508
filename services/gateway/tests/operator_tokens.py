"""Operators of the platform for tests: their file, and requests with their tokens."""

import secrets
from hashlib import sha256
from pathlib import Path

import yaml

TOKENS = {name: f"clusterra-operator_{secrets.token_urlsafe(32)}" for name in ("anna", "rita")}
SCOPES = {"anna": ["tenants:read", "tenants:write"], "rita": ["tenants:read"]}


def write_operators(file: Path, *names: str) -> Path:
    """Write a file with these operators. Anna may do all, Rita may read."""
    operators = [
        {"name": name, "token_sha256": sha256(TOKENS[name].encode()).hexdigest(), "scopes": SCOPES[name]}
        for name in names
    ]
    file.write_text(yaml.safe_dump({"operators": operators}))
    return file


def header(name: str) -> dict[str, str]:
    """The header of a request of this operator."""
    return {"Authorization": f"Bearer {TOKENS[name]}"}
