"""Sends one heartbeat to the gateway by HTTP and reads its reply."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import aiohttp
from clusterra_contracts.agent_http import KEY_HEADER, PATH, AgentHeartbeat, AgentHeartbeatReply, is_key
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.secrets.local import read_secret
from clusterra_runtime.secrets.reference import SecretUnavailable

from clusterra_edge_agent.heartbeat.http_fallback import ExchangeFailed

TIMEOUT_SECONDS = 10.0


class GatewayExchange:
    """Calls the gateway for one cluster. It verifies the certificate, and follows no redirect with its key."""

    def __init__(self, http: aiohttp.ClientSession, gateway_url: str, ref: ClusterRef, key_file: Path) -> None:
        self._http = http
        self._url = f"{gateway_url.rstrip('/')}{PATH}"
        self._ref = ref
        self._key_file = key_file

    async def __call__(self, heartbeat: Heartbeat) -> DesiredState | None:
        """Sends a heartbeat. Returns the last desired state, or None for no opinion. Raises ExchangeFailed."""
        request = AgentHeartbeat(
            cluster_id=self._ref.cluster, agent_version=heartbeat.agent_version, heartbeat=heartbeat
        )
        headers = {KEY_HEADER: self._key(), "Content-Type": "application/json"}
        body = request.model_dump_json().encode()
        try:
            async with self._http.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                if answer.status != HTTPStatus.OK:
                    raise ExchangeFailed(
                        f"the gateway answered with status {answer.status}", _retry_after_seconds(answer)
                    )
                return decode(AgentHeartbeatReply, await answer.read()).desired
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ExchangeFailed(f"the gateway did not answer ({error or type(error).__name__})") from error
        except InvalidMessage as error:
            raise ExchangeFailed(f"the gateway sent an invalid reply: {error}") from error

    def _key(self) -> str:
        try:
            key = read_secret(f"file:{self._key_file}").decode(errors="replace")
        except SecretUnavailable as error:
            raise ExchangeFailed(str(error)) from error
        if not is_key(key):
            raise ExchangeFailed(f"{self._key_file} contains no agent key: write the agent key of the cluster into it")
        return key


@asynccontextmanager
async def open_exchange(gateway_url: str, ref: ClusterRef, key_file: Path) -> AsyncIterator[GatewayExchange]:
    """Yields an exchange with the gateway, until the block ends."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)) as http:
        yield GatewayExchange(http, gateway_url, ref, key_file)


def _retry_after_seconds(answer: aiohttp.ClientResponse) -> float:
    given = answer.headers.get("Retry-After", "")
    return float(given) if given.isascii() and given.isdigit() and len(given) < 4 else 0.0
