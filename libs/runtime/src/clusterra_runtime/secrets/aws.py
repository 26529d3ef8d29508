"""Secrets of AWS Secrets Manager, read with the process' own AWS identity."""

import asyncio
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import orjson

from clusterra_runtime.secrets.reference import AwsSecret, SecretUnavailable, SourceUnavailable

if TYPE_CHECKING:
    from types_boto3_secretsmanager import SecretsManagerClient

_CONNECT_SECONDS = 1.0
_READ_SECONDS = 2.0
_ATTEMPTS = 2
_THREADS = 32
_PER_REGION = 16
"""Requests to one region at a time: a region that does not answer leaves threads to the others."""
_FAILED_BEFORE = 4
"""Requests at a time for secrets that could not be read the last time: they leave threads to the others."""
_TURN_SECONDS = 2.0
"""How long such a request waits for its turn before it fails again."""
_ACTIONS = {
    "ResourceNotFoundException": "there is no such secret, or it has no current version",
    "AccessDeniedException": "the process' AWS identity may not read it: allow secretsmanager:GetSecretValue on it"
    " (and kms:Decrypt where a key of your own encrypts it)",
    "InvalidRequestException": "it is being deleted: restore it, or refer to another one",
    "InvalidParameterException": "its name or ARN is not valid",
    "DecryptionFailure": "its KMS key cannot decrypt it: check the key and the right kms:Decrypt",
}


class SecretsManager:
    """One boto3 client per region, in threads of their own: a slow answer does not block the event loop.

    It hardly delays other secrets either: one that was not answered has few threads the next time. Only more hanging
    secrets at once than there are threads delay others, once, by the longest time of a request (6 s).
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="secrets-manager")
        self._clients: dict[str | None, SecretsManagerClient] = {}
        self._connecting = threading.Lock()
        self._regions: defaultdict[str | None, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_PER_REGION))
        self._failed_before = asyncio.Semaphore(_FAILED_BEFORE)

    async def read(self, secret: AwsSecret, *, failed_before: bool = False) -> bytes:
        """Returns a value. Raises SecretUnavailable, and SourceUnavailable while AWS does not answer.

        A secret that `failed_before` waits for one of a few turns, so that it cannot delay the others.
        """
        if not failed_before:
            return await self._in_thread(secret)
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._failed_before.acquire()
        except TimeoutError:
            raise SourceUnavailable(
                f"aws-secretsmanager:{secret.id}: AWS Secrets Manager does not answer (other requests to it hang)"
            ) from None
        try:
            return await self._in_thread(secret)
        finally:
            self._failed_before.release()

    async def _in_thread(self, secret: AwsSecret) -> bytes:
        async with self._regions[secret.region]:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, secret)

    async def close(self) -> None:
        """Wait for running requests and close the connections."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        for client in self._clients.values():
            client.close()

    def _read(self, secret: AwsSecret) -> bytes:
        # Imported here, so that a process without such a secret does not load the AWS SDK.
        from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

        what = f"aws-secretsmanager:{secret.id}"
        try:
            answer = self._client(secret.region).get_secret_value(SecretId=secret.id)
        except ClientError as error:
            code = error.response["Error"].get("Code", "")
            if code in _ACTIONS:
                raise SecretUnavailable(f"{what}: {_ACTIONS[code]}") from None
            raise SourceUnavailable(f"{what}: AWS Secrets Manager answered {code}") from None
        except NoRegionError:
            raise SecretUnavailable(f"{what}: set AWS_REGION, or refer to the secret by its ARN") from None
        except BotoCoreError as error:
            raise SourceUnavailable(
                f"{what}: AWS Secrets Manager does not answer ({type(error).__name__}): check the network and the"
                " process' AWS credentials"
            ) from None
        text = answer.get("SecretString")
        value = text.encode(errors="surrogatepass") if text is not None else answer.get("SecretBinary", b"")
        if secret.json_key is not None:
            value = _json_value(value, secret.json_key, what)
        if not value:
            raise SecretUnavailable(f"{what} is empty: store the secret in it")
        return value

    def _client(self, region: str | None) -> "SecretsManagerClient":
        # boto3 does not make clients in several threads at once.
        with self._connecting:
            client = self._clients.get(region)
            if client is None:
                client = self._clients[region] = _connect(region)
            return client


def _connect(region: str | None) -> "SecretsManagerClient":
    import boto3
    from botocore.config import Config

    client: SecretsManagerClient = boto3.client(
        "secretsmanager",
        region_name=region,
        config=Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            max_pool_connections=_PER_REGION,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        ),
    )
    return client


def _json_value(value: bytes, key: str, what: str) -> bytes:
    try:
        # It states too deep a nesting as a ValueError, and knows no lone surrogates, which no UTF-8 can hold.
        content = orjson.loads(value)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise SecretUnavailable(f"{what}#{key}: the secret is not a JSON object: refer to it without #{key}")
    found = content.get(key)
    if not isinstance(found, str):
        raise SecretUnavailable(f"{what}#{key}: the JSON object has no text under this key")
    return found.encode()
