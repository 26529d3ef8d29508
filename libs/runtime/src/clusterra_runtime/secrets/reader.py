"""Reads secrets from all three sources, without blocking the event loop, and keeps them for a minute."""

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import structlog
from clusterra_contracts.registry import SecretReference

from clusterra_runtime.secrets import kubernetes
from clusterra_runtime.secrets.aws import SecretsManager
from clusterra_runtime.secrets.files import read_file
from clusterra_runtime.secrets.reference import (
    AwsSecret,
    FileSecret,
    KubernetesSecret,
    SecretUnavailable,
    Source,
    SourceUnavailable,
    parse,
)

log = structlog.get_logger(__name__)

REFRESH_SECONDS = 60.0
"""How long a value counts as current: a replaced secret is used at the latest after this time."""
RETRY_SECONDS = 5.0
"""How long after a failure the source is asked again."""
MAX_KEPT = 1024
"""The values kept at once; beyond them, the one that was used longest ago is read again when it is needed."""


@dataclass(slots=True)
class _Kept:
    """The last answer for a reference: a value, an error, or during an outage the value of before it."""

    value: bytes | None = None
    error: SecretUnavailable | None = None
    current_until: float = 0.0

    def content(self) -> bytes:
        if self.value is None:
            # A new error each time: one that is raised again and again would collect tracebacks.
            raise SecretUnavailable(str(self.error or "the secret has not been read yet: try again"))
        return self.value


class Secrets:
    """The secrets of one process. All methods that read raise SecretUnavailable.

    While a source does not answer, the last value stays. What a source says does hold: a secret that was deleted, or
    that may no longer be read, is not used any more.
    """

    def __init__(self, *, refresh_seconds: float = REFRESH_SECONDS, retry_seconds: float = RETRY_SECONDS) -> None:
        self._refresh_seconds = refresh_seconds
        self._retry_seconds = retry_seconds
        self._kept: OrderedDict[SecretReference, _Kept] = OrderedDict()
        self._reading: dict[SecretReference, asyncio.Task[None]] = {}
        self._aws = SecretsManager()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._reading.values():
            task.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)
        await self._aws.close()

    async def read(self, reference: SecretReference) -> bytes:
        """Returns the value behind a reference, stripped of white space."""
        return _stripped(reference, await self.read_binary(reference))

    async def read_binary(self, reference: SecretReference) -> bytes:
        """Returns the value unstripped, for secrets in which every byte counts."""
        source = parse(reference)
        if isinstance(source, FileSecret):
            return await asyncio.to_thread(read_file, source.path)
        kept = self._kept.get(reference)
        if kept is None or time.monotonic() >= kept.current_until:
            # Callers that are cancelled do not end the request that others wait for.
            await asyncio.shield(self._refresh(reference, source))
            kept = self._kept[reference]
        self._kept.move_to_end(reference)
        return kept.content()

    def last(self, reference: SecretReference) -> bytes:
        """Returns the last value that was read, stripped, without asking its source; of a file, the present content."""
        source = parse(reference)
        if isinstance(source, FileSecret):
            return _stripped(reference, read_file(source.path))
        return _stripped(reference, self._kept.get(reference, _Kept()).content())

    async def follow(self, reference: SecretReference) -> None:
        """Keep the value that `last` returns current, until cancelled."""
        if isinstance(parse(reference), FileSecret):
            return
        while True:
            with suppress(SecretUnavailable):
                await self.read_binary(reference)
            kept = self._kept.get(reference)
            await asyncio.sleep(max(0.0, kept.current_until - time.monotonic()) if kept else self._retry_seconds)

    def _refresh(self, reference: SecretReference, source: KubernetesSecret | AwsSecret) -> asyncio.Task[None]:
        """The one running request for a reference, which ends with an answer in `_kept`."""
        task = self._reading.get(reference)
        if task is None:
            task = self._reading[reference] = asyncio.create_task(self._read(reference, source))
            task.add_done_callback(lambda _: self._reading.pop(reference))
        return task

    async def _read(self, reference: SecretReference, source: KubernetesSecret | AwsSecret) -> None:
        before = self._kept.get(reference, _Kept())
        try:
            value = await self._value(source)
            kept = _Kept(value, None, time.monotonic() + self._refresh_seconds)
        except SecretUnavailable as error:
            outage = isinstance(error, SourceUnavailable)
            keeps = before.value if outage else None
            kept = _Kept(keeps, error, time.monotonic() + self._retry_seconds)
            if before.error is None or str(before.error) != str(error):
                log.warning("secret_not_read", reason=str(error), last_value_is_used=keeps is not None)
        else:
            if before.error is not None:
                log.info("secret_read_again", reference=reference)
        self._kept[reference] = kept
        self._kept.move_to_end(reference)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    async def _value(self, source: Source) -> bytes:
        match source:
            case KubernetesSecret():
                return await kubernetes.read(source)
            case AwsSecret():
                return await self._aws.read(source)
            case FileSecret():
                return await asyncio.to_thread(read_file, source.path)


def _stripped(reference: SecretReference, value: bytes) -> bytes:
    if not (stripped := value.strip()):
        raise SecretUnavailable(f"{reference} is empty: store the secret there")
    return stripped
