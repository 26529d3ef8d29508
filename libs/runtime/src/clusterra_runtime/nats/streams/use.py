"""How full the streams are, as a metric: the server knows, and has no exporter of its own."""

import asyncio
import json

import nats.errors
import structlog
from clusterra_contracts.bus.topology import BOUNDS

from clusterra_runtime.metrics import STREAM_USE
from clusterra_runtime.nats.client import Client

log = structlog.get_logger(__name__)

EVERY_SECONDS = 30.0
_ANSWER_SECONDS = 5.0


async def watch_streams(client: Client) -> None:
    """Ask for all streams every 30 s, until cancelled. Without an answer the last values stay. Never raises."""
    while True:
        for name in BOUNDS:
            try:
                await measure(client, name)
            except (nats.errors.Error, TimeoutError) as error:
                log.debug("stream_use_unknown", stream=name, reason=repr(error))
            except Exception:
                # A mistake here must not end the measurement.
                log.exception("stream_use_failed", stream=name)
        await asyncio.sleep(EVERY_SECONDS)


async def measure(client: Client, name: str) -> None:
    """Set the metric of one stream. Raises nats.errors.Error and TimeoutError."""
    async with client.while_connected(_ANSWER_SECONDS):
        answer = await client.request(f"$JS.API.STREAM.INFO.{name}", timeout=_ANSWER_SECONDS)
    info = json.loads(answer.data)
    if "error" in info:
        return
    state, config = info["state"], info["config"]
    for of, used, limit in (
        ("bytes", state["bytes"], config.get("max_bytes", -1)),
        ("messages", state["messages"], config.get("max_msgs", -1)),
    ):
        # A stream of an old installation has no bound until `topology apply`.
        STREAM_USE.labels(name, of).set(used / limit if limit > 0 else 0.0)
