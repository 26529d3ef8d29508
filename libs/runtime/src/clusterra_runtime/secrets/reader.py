"""Reads secrets from all four sources, without blocking the event loop, and keeps them for a minute."""

import asyncio
import time
import traceback
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import structlog
from clusterra_contracts.registry import SecretReference

from clusterra_runtime.secrets import kubernetes
from clusterra_runtime.secrets.aws import SecretsManager
from clusterra_runtime.secrets.local import read_local
from clusterra_runtime.secrets.reference import (
    AwsSecret,
    EnvironmentSecret,
    FileSecret,
    KubernetesSecret,
    SecretUnavailable,
    Source,
    SourceUnavailable,
    parse,
)
from clusterra_runtime.single_flight import SingleFlight

log = structlog.get_logger(__name__)

REFRESH_SECONDS = 60.0
"""How long a value counts as current: a replaced secret is used at the latest after this time."""
RETRY_SECONDS = 5.0
"""How long after a first failure the source is asked again; after each further one, twice as long, up to a minute."""
MAX_KEPT = 1024
"""The values kept at once that nobody follows; the one that was used longest ago is read again when it is needed."""


@dataclass(slots=True)
class _Kept:
    """The last answer for a reference: a value, an error, or during an outage the value of before it."""

    value: bytes | None = None
    error: SecretUnavailable | None = None
    current_until: float = 0.0
    failures: int = 0
    """How often in a row it could not be read."""

    def content(self) -> bytes:
        if self.value is None:
            # A new error each time: one that is raised again and again would collect tracebacks.
            raise SecretUnavailable(str(self.error or "the secret has not been read yet: try again"))
        return self.value


class Secrets:
    """The secrets of one process. All methods that read raise SecretUnavailable.

    While a source does not answer, the last value stays. What a source says does hold: a secret that was deleted, or
    that may no longer be read, is not used any more. A followed secret is kept as long as somebody follows it.
    """

    def __init__(
        self,
        *,
        folders: Sequence[Path] | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Files are read below `folders` alone; None: anywhere, for who reads what they themselves refer to."""
        self._folders = folders
        self._refresh_seconds = refresh_seconds
        self._retry_seconds = retry_seconds
        self._kept: dict[SecretReference, _Kept] = {}
        self._followers: Counter[SecretReference] = Counter()
        self._unfollowed: OrderedDict[SecretReference, None] = OrderedDict()
        """The kept references that nobody follows; the one that was used longest ago is the first."""
        self._reading = SingleFlight[SecretReference, _Kept]()
        self._aws = SecretsManager()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._reading.close()
        await self._aws.close()

    async def read(self, reference: SecretReference) -> bytes:
        """Returns the value behind a reference, stripped of white space."""
        return _stripped(reference, await self.read_binary(reference))

    async def read_binary(self, reference: SecretReference) -> bytes:
        """Returns the value unstripped, for secrets in which every byte counts."""
        source = parse(reference)
        if isinstance(source, FileSecret | EnvironmentSecret):
            return await self._value(reference, source)
        return (await self._current(reference, source)).content()

    def last(self, reference: SecretReference) -> bytes:
        """Returns the last value that was read, stripped, without asking its source; of a file, what it has now."""
        source = parse(reference)
        if isinstance(source, FileSecret | EnvironmentSecret):
            return _stripped(reference, read_local(source, self._folders))
        return _stripped(reference, self._kept.get(reference, _Kept()).content())

    async def follow(self, reference: SecretReference) -> None:
        """Keep the value that `last` returns current, until cancelled. Raises InvalidReference; failures to read do not
        end it.
        """
        source = parse(reference)
        if isinstance(source, FileSecret | EnvironmentSecret):
            return
        self._followers[reference] += 1
        self._unfollowed.pop(reference, None)
        try:
            while True:
                kept = await self._current(reference, source)
                await asyncio.sleep(max(0.0, kept.current_until - time.monotonic()))
        finally:
            self._followers[reference] -= 1
            if not self._followers[reference]:
                del self._followers[reference]
            self._used(reference)

    async def _current(self, reference: SecretReference, source: KubernetesSecret | AwsSecret) -> _Kept:
        kept = self._kept.get(reference)
        if kept is None or time.monotonic() >= kept.current_until:
            kept = await self._reading.get(reference, partial(self._read, reference, source))
        self._used(reference)
        return kept

    def _used(self, reference: SecretReference) -> None:
        """Mark a reference as the last one that was used, and forget those beyond the bound."""
        if reference in self._followers or reference not in self._kept:
            return
        self._unfollowed[reference] = None
        self._unfollowed.move_to_end(reference)
        while len(self._unfollowed) > MAX_KEPT:
            forgotten, _ = self._unfollowed.popitem(last=False)
            del self._kept[forgotten]

    async def _read(self, reference: SecretReference, source: KubernetesSecret | AwsSecret) -> _Kept:
        before = self._kept.get(reference, _Kept())
        try:
            value = await self._value(reference, source, failed_before=before.failures > 0)
            kept = _Kept(value, None, time.monotonic() + self._refresh_seconds)
        except SecretUnavailable as error:
            outage = isinstance(error, SourceUnavailable)
            keeps = before.value if outage else None
            pause = self._pause_after(before.failures)
            kept = _Kept(keeps, error, time.monotonic() + pause, before.failures + 1)
            if before.error is None or str(before.error) != str(error):
                log.warning("secret_not_read", reason=str(error), last_value_is_used=keeps is not None)
        else:
            if before.error is not None:
                log.info("secret_read_again", reference=reference)
        self._kept[reference] = kept
        self._used(reference)
        return kept

    def _pause_after(self, failures: int) -> float:
        longest = max(self._retry_seconds, self._refresh_seconds)
        return float(min(self._retry_seconds * 2 ** min(failures, 16), longest))

    async def _value(self, reference: SecretReference, source: Source, *, failed_before: bool = False) -> bytes:
        """Asks a source. Raises only SecretUnavailable: no secret, whatever is in it, may end who reads it."""
        try:
            match source:
                case KubernetesSecret():
                    return await kubernetes.read(source)
                case AwsSecret():
                    return await self._aws.read(source, failed_before=failed_before)
                case FileSecret() | EnvironmentSecret():
                    return await asyncio.to_thread(read_local, source, self._folders)
        except SecretUnavailable:
            raise
        except Exception as error:
            # Its place is logged but not its text, in which there may be the secret.
            place = traceback.extract_tb(error.__traceback__)[-1]
            log.error(  # noqa: TRY400 - the traceback ends with the text
                "secret_read_failed",
                reference=reference,
                error=type(error).__name__,
                place=f"{place.filename}:{place.lineno}",
            )
            raise SourceUnavailable(f"{reference} cannot be read: unexpected {type(error).__name__}") from None


def _stripped(reference: SecretReference, value: bytes) -> bytes:
    if not (stripped := value.strip()):
        raise SecretUnavailable(f"{reference} is empty: store the secret there")
    return stripped
