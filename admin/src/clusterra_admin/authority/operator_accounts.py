"""Sends the accounts of resolver.conf to the servers when they change.

With a directory of accounts, nats-server reads those of its configuration when it starts, but at a reload it leaves an
account in use as it is.
"""

import asyncio
from pathlib import Path

import structlog
from clusterra_runtime.nats.client import BusUnavailable

from clusterra_admin.authority.servers import AccountServers
from clusterra_admin.secrets import nats_jwt
from clusterra_admin.secrets.problem import SecretsProblem

EVERY_SECONDS = 2.0
"""How often the file is looked at."""

log = structlog.get_logger(__name__)


class OperatorAccounts:
    """Follows one file. What it sends, the operator has signed: the servers take nothing else."""

    def __init__(self, servers: AccountServers, file: Path) -> None:
        self._servers = servers
        self._file = file
        self._sent = ""

    async def run(self) -> None:
        """Sends for ever what changes in the file."""
        while True:
            try:
                await self.send()
            except (BusUnavailable, OSError, UnicodeDecodeError, SecretsProblem) as error:
                log.warning("accounts_not_sent", reason=str(error))
            await asyncio.sleep(EVERY_SECONDS)

    async def send(self) -> None:
        """Sends the accounts that are newer than the servers' own, if the file has changed since the last time.

        Raises BusUnavailable, OSError, UnicodeDecodeError, SecretsProblem; all is sent again then.
        """
        text = await asyncio.to_thread(self._file.read_text)
        if text == self._sent:
            return
        new, changed = [], []
        for jwt in nats_jwt.jwts_in(text):
            claims = nats_jwt.claims_of(jwt)
            if claims["nats"]["type"] == "account":
                known = await self._servers.claims(claims["sub"])
                if known is None:
                    new.append(jwt)
                elif known["iat"] < claims["iat"]:
                    changed.append(jwt)
        # A server takes up an import when it knows the account that exports.
        for jwt in (*new, *changed):
            await self._servers.replace(jwt)
            log.info("account_sent", account=nats_jwt.claims_of(jwt)["name"])
        self._sent = text
