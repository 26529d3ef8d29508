"""Makes a server match the declared topology; `clusterra-admin topology apply|check` is its command.

`clusterra_contracts.bus.topology` declares the streams, consumers and buckets. A second `apply` changes nothing.
Objects and settings of the server that are not declared stay; nothing is ever deleted.
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import nats.errors
import structlog
from clusterra_contracts.bus.topology import (
    BUCKETS,
    CONSUMERS,
    EVENT,
    STREAMS,
    Bounds,
    Bucket,
    Consumer,
    Stream,
    storage_bytes,
)

from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.nats.bus import close, connect
from clusterra_runtime.nats.client import Client
from clusterra_runtime.settings import ServiceSettings

log = structlog.get_logger(__name__)

REQUEST_SECONDS = 5.0
RETRY_SECONDS = 1.0
BUCKET_DEDUPLICATION_SECONDS = 120.0
_NOT_FOUND = 404
_UNAVAILABLE = 503
_NO_STORAGE = frozenset({10023, 10047})
"""JetStream's codes for a stream whose bytes are not left on the servers, or not in the account."""

type Config = dict[str, Any]


class TopologyConflict(RuntimeError):
    """The server rejects a change, such as of a stream's storage. An operator must delete the old object first."""


class NotReady(RuntimeError):
    """JetStream does not answer yet."""


@dataclass(frozen=True)
class Change:
    """How an object of the server differs from its declaration. `fields` maps a name to the old and the new value."""

    what: str
    created: bool
    fields: dict[str, tuple[Any, Any]]

    def __str__(self) -> str:
        if self.created:
            return f"+ {self.what}"
        return "\n".join(
            [f"~ {self.what}", *(f"    {name}: {old} -> {new}" for name, (old, new) in self.fields.items())]
        )


@dataclass(frozen=True)
class Size:
    """How large an installation is: the replicas of each stream, and by how much the declared bounds are multiplied.

    Without a scale it is that of the server's streams, so that nobody lowers it by forgetting it; on a new server 1.
    """

    replicas: int = 1
    scale: int | None = None


ONE_SERVER = Size()


def stream_config(stream: Stream, size: Size = ONE_SERVER) -> Config:
    """The configuration of a stream for JetStream's API; its times are in nanoseconds."""
    config: Config = {
        "name": stream.name,
        "description": stream.description,
        "subjects": list(stream.subjects),
        "retention": "limits",
        "storage": stream.storage,
        "num_replicas": size.replicas,
        "max_age": _nanoseconds(stream.max_age_seconds),
        **_limits(stream.bounds, size.scale or 1),
        "duplicate_window": _nanoseconds(stream.deduplication_seconds),
        "allow_direct": True,
    }
    if stream.transform is not None:
        source, destination = stream.transform
        config["subject_transform"] = {"src": source, "dest": destination}
    return config


def _limits(bounds: Bounds, scale: int) -> Config:
    return {
        "max_bytes": scale * bounds.bytes,
        "max_msgs": scale * bounds.messages,
        "max_msgs_per_subject": bounds.messages_per_subject,
        "max_msg_size": bounds.message_bytes,
        "discard": bounds.discard,
        # The server leaves out what is false.
        **({"discard_new_per_subject": True} if bounds.refuse_per_subject else {}),
    }


def bucket_config(bucket: Bucket, size: Size = ONE_SERVER) -> Config:
    """The configuration of a bucket's stream, as NATS clients create it; entries may have a time to live."""
    return {
        "name": f"KV_{bucket.name}",
        "description": bucket.description,
        "subjects": [f"$KV.{bucket.name}.>"],
        "retention": "limits",
        "storage": bucket.storage,
        "num_replicas": size.replicas,
        **_limits(bucket.bounds, size.scale or 1),
        "duplicate_window": _nanoseconds(BUCKET_DEDUPLICATION_SECONDS),
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
        "deny_delete": True,
    }


def consumer_config(consumer: Consumer) -> Config:
    """The configuration of a durable pull consumer for JetStream's API."""
    return {
        "name": consumer.name,
        "durable_name": consumer.name,
        "filter_subject": consumer.filter_subject,
        "deliver_policy": consumer.deliver,
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "ack_wait": _nanoseconds(consumer.ack_wait_seconds),
        "max_ack_pending": consumer.max_ack_pending,
        "max_deliver": consumer.max_deliver,
    }


@dataclass(frozen=True)
class _Declared:
    """A declared object, with the subjects of its three requests."""

    what: str
    config: Config
    info: str
    create: str
    update: str
    stream: str | None = None
    numbered_by_time: bool = False

    def new(self) -> Config:
        """The configuration with which the object is made, and which no update may change."""
        return self.config | ({"first_seq": time.time_ns() // 1000} if self.numbered_by_time else {})

    def body(self, config: Config) -> bytes:
        request = config if self.stream is None else {"stream_name": self.stream, "config": config}
        return json.dumps(request).encode()


def _declared(size: Size) -> Iterable[_Declared]:
    streams = [(stream_config(stream, size), stream.numbered_by_time) for stream in STREAMS]
    for config, by_time in streams + [(bucket_config(bucket, size), False) for bucket in BUCKETS]:
        name = config["name"]
        yield _Declared(
            f"stream {name}",
            config,
            f"STREAM.INFO.{name}",
            f"STREAM.CREATE.{name}",
            f"STREAM.UPDATE.{name}",
            numbered_by_time=by_time,
        )
    for consumer in CONSUMERS:
        path = f"{consumer.stream}.{consumer.name}"
        put = f"CONSUMER.CREATE.{path}.{consumer.filter_subject}"
        yield _Declared(
            f"consumer {consumer.stream}/{consumer.name}",
            consumer_config(consumer),
            f"CONSUMER.INFO.{path}",
            put,
            put,
            consumer.stream,
        )


async def apply(client: Client, size: Size = ONE_SERVER, *, change: bool = True) -> list[Change]:
    """Create and update objects that differ, and return the differences; with `change=False` only return them.

    Raises TopologyConflict if the server rejects a change, and NotReady if JetStream does not answer.
    """
    size = Size(size.replicas, size.scale or await scale_of(client))
    results = [await _match(client, declared, change=change) for declared in _declared(size)]
    return [result for result in results if result is not None]


async def _match(client: Client, declared: _Declared, *, change: bool) -> Change | None:
    info = await _request(client, declared.info)
    if info is None:
        if change:
            try:
                await _request(client, declared.create, declared.body(declared.new()))
            except TopologyConflict:
                # Another process may have made it meanwhile, with another first sequence.
                if not declared.numbered_by_time or await _request(client, declared.info) is None:
                    raise
                return await _match(client, declared, change=change)
        return Change(declared.what, created=True, fields={})
    current: Config = info["config"]
    fields = {name: (current.get(name), value) for name, value in declared.config.items() if current.get(name) != value}
    if not fields:
        return None
    if change:
        await _request(client, declared.update, declared.body(current | declared.config))
    return Change(declared.what, created=False, fields=fields)


async def _request(client: Client, subject: str, body: bytes = b"") -> dict[str, Any] | None:
    try:
        answer = await client.request(f"$JS.API.{subject}", body, timeout=REQUEST_SECONDS)
    except nats.errors.Error as error:
        raise NotReady(f"{subject}: JetStream does not answer ({error or type(error).__name__})") from error
    content: dict[str, Any] = json.loads(answer.data)
    problem = content.get("error")
    if problem is None:
        return content
    if problem.get("code") == _NOT_FOUND:
        return None
    if problem.get("code") == _UNAVAILABLE:
        raise NotReady(f"{subject}: {problem.get('description')}")
    if problem.get("err_code") in _NO_STORAGE:
        raise TopologyConflict(
            f"{subject}: {problem.get('description')}: all streams need {storage_bytes() / 2**20:.0f} MiB times the"
            " scale on each server; raise max_file_store, or lower the scale"
        )
    raise TopologyConflict(
        f"{subject}: {problem.get('description')} ({problem.get('err_code')}); delete the old one first"
    )


async def scale_of(client: Client) -> int:
    """The scale of the streams on the server; 1 if there are none, or if they have other bounds.

    Raises NotReady and TopologyConflict.
    """
    info = await _request(client, f"STREAM.INFO.{EVENT.name}")
    scale, rest = divmod(int((info or {"config": {}})["config"].get("max_bytes", -1)), EVENT.bounds.bytes)
    return scale if scale > 0 and not rest else 1


async def apply_when_ready(settings: ServiceSettings, size: Size = ONE_SERVER, *, change: bool = True) -> list[Change]:
    """Connect, wait without limit for NATS and JetStream, and then `apply`. Raises TopologyConflict."""
    client = await connect(settings, "topology")
    try:
        backoff = Backoff(RETRY_SECONDS, RETRY_SECONDS)
        return await retry(lambda: apply(client, size, change=change), backoff, on=_is_not_ready)
    finally:
        await close(client)


def _is_not_ready(error: Exception) -> bool:
    if not isinstance(error, NotReady):
        return False
    log.warning("topology_waits", reason=str(error))
    return True


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
