"""Asks the notebook server of a session what its kernels do, without counting as the session's use."""

from datetime import datetime

import aiohttp
from clusterra_contracts.identity import ClusterRef, Moment
from clusterra_contracts.rpc.edge_streams import SessionJob
from clusterra_runtime.nats.byte_stream.opener import ByteStream
from clusterra_runtime.nats.client import Client
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from clusterra_gateway.sessions.connector import StreamConnector
from clusterra_gateway.sessions.entrance import page_path

MAX_BYTES = 1024 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)


class SessionSilent(Exception):
    """The session's server did not answer, so nobody knows what its kernels do."""


class Kernel(BaseModel):
    """A kernel, as the server of a notebook tells."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    execution_state: str
    last_activity: Moment


_KERNELS = TypeAdapter(list[Kernel])


async def last_activity(
    client: Client, ref: ClusterRef, session: SessionJob, token: str, *, strip_prefix: bool, now: datetime
) -> datetime | None:
    """When a kernel was last active: now for a busy one; None without kernels, and for what is no notebook.

    Raises SessionSilent.
    """

    async def open_stream(_host: str) -> ByteStream:
        return await ByteStream.open(client, ref, session, probe=True)

    connector = StreamConnector(open_stream)
    prefix = "" if strip_prefix else page_path(ref.cluster, session.job_id)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as http,
            http.get(
                f"http://session{prefix}/api/kernels",
                headers={"Authorization": f"token {token}"},
                allow_redirects=False,
            ) as answer,
        ):
            content = b""
            async for chunk in answer.content.iter_chunked(64 * 1024):
                content += chunk
                if len(content) > MAX_BYTES:
                    raise SessionSilent("the list of its kernels is too long")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise SessionSilent(str(error) or type(error).__name__) from error
    finally:
        await connector.end()
    if answer.status != 200:
        return None
    try:
        kernels = _KERNELS.validate_json(content)
    except ValidationError:
        return None
    return max((now if each.execution_state == "busy" else each.last_activity for each in kernels), default=None)
