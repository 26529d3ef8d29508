"""Writes kubeconfig files for kubectl, clients and components of Kubernetes."""

import base64
import json
from pathlib import Path

from clusterra_lab.kube.certificates import Pair
from clusterra_lab.machine.secret_file import write_secret

_NAME = "lab"

type User = dict[str, str]
"""The `user` entry of a kubeconfig: the credentials."""


def certificate_user(pair: Pair) -> User:
    """The user entry with a client certificate."""
    return {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}


def token_user(token: str) -> User:
    """The user entry with a bearer token."""
    return {"token": token}


def write_kubeconfig(path: Path, *, url: str, authority: str, user: User) -> Path:
    """Write a kubeconfig with mode 0600 for the API server at `url`, whose certificate `authority` (PEM) signed."""
    cluster = {"server": url, "certificate-authority-data": _base64(authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "users": [{"name": _NAME, "user": user}],
    }
    write_secret(path, json.dumps(config, indent=2))
    return path


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
