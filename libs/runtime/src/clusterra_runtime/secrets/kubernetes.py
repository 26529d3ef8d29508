"""Secrets of Kubernetes, read from the API server with the pod's ServiceAccount."""

import asyncio
import base64
import binascii
import os
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from clusterra_runtime.secrets.reference import KubernetesSecret, SecretUnavailable, SourceUnavailable

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts the pod's token and the certificate of the API server's authority."""
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_MAX_BYTES = 4 * 1024 * 1024


async def read(secret: KubernetesSecret) -> bytes:
    """Returns the value of one key. Raises SecretUnavailable, and SourceUnavailable while the server is away."""
    what = f"kubernetes:{secret.namespace}/{secret.name}/{secret.key}"
    url, token, trust = await asyncio.to_thread(_account, what)
    path = f"{url}/api/v1/namespaces/{secret.namespace}/secrets/{secret.name}"
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as http,
            http.get(path, headers=headers, ssl=trust, allow_redirects=False) as answer,
        ):
            status, body = answer.status, await _bounded(answer, what)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise SourceUnavailable(f"{what}: the API server does not answer ({type(error).__name__})") from None
    return _value(secret, what, status, body)


async def _bounded(answer: aiohttp.ClientResponse, what: str) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(65536):
        body += chunk
        if len(body) > _MAX_BYTES:
            raise SecretUnavailable(f"{what}: the API server sent more than {_MAX_BYTES} bytes")
    return bytes(body)


def _account(what: str) -> tuple[str, str, ssl.SSLContext]:
    """The API server's address, the pod's token and whom to trust; read each time, because tokens are replaced."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        if not host:
            raise FileNotFoundError
        token = (ACCOUNT / "token").read_text().strip()
        trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    except OSError:
        raise SecretUnavailable(
            f"{what} can only be read in a pod with a ServiceAccount's token: elsewhere mount the secret as a file,"
            " file:/path"
        ) from None
    return f"https://{f'[{host}]' if ':' in host else host}:{port}", token, trust


def _value(secret: KubernetesSecret, what: str, status: int, body: bytes) -> bytes:
    match status:
        case 200:
            pass
        case 403:
            raise SecretUnavailable(
                f"{what}: the pod's ServiceAccount may not read it: allow `get` on the Secret {secret.name} in the"
                f" namespace {secret.namespace} (a Role with resourceNames, and a RoleBinding)"
            )
        case 404:
            raise SecretUnavailable(f"{what}: there is no Secret {secret.name} in the namespace {secret.namespace}")
        case _:
            raise SourceUnavailable(f"{what}: the API server answered with status {status}")
    try:
        data: dict[str, Any] = orjson.loads(body).get("data") or {}
        encoded = data.get(secret.key)
        value = None if encoded is None else base64.b64decode(encoded, validate=True)
    except (orjson.JSONDecodeError, AttributeError, TypeError, binascii.Error, ValueError):
        raise SourceUnavailable(f"{what}: the API server's answer is not a Secret") from None
    if not value:
        problem = "has no" if value is None else "has an empty"
        raise SecretUnavailable(f"{what}: the Secret {problem} key {secret.key}")
    return value
