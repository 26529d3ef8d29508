"""What the NATS servers know of an account: read and replaced over the system account."""

import asyncio
import json

import nats.errors
from clusterra_runtime.nats.client import BusUnavailable, Client

from clusterra_admin.secrets import nats_jwt
from clusterra_admin.secrets.nats_jwt import Claims
from clusterra_admin.secrets.problem import SecretsProblem

ANSWER_SECONDS = 3.0
OTHER_SERVERS_SECONDS = 0.5
"""How long servers are waited for after one has said that it does not know an account: another one may know it."""
_DONE = 200


class AccountServers:
    """The accounts that the servers keep. All methods raise BusUnavailable."""

    def __init__(self, system: Client) -> None:
        self._system = system

    async def claims(self, account: str) -> Claims | None:
        """The claims of an account; None if no server knows it."""
        inbox = self._system.new_inbox()
        try:
            answers = await self._system.subscribe(inbox)
            try:
                await self._system.publish(f"$SYS.REQ.ACCOUNT.{account}.CLAIMS.LOOKUP", reply=inbox)
                found = (await answers.next_msg(timeout=ANSWER_SECONDS)).data
                while not found:
                    try:
                        found = (await answers.next_msg(timeout=OTHER_SERVERS_SECONDS)).data
                    except TimeoutError:
                        return None
            finally:
                await answers.unsubscribe()
            return nats_jwt.claims_of(found.decode())
        except (nats.errors.Error, TimeoutError, UnicodeDecodeError, SecretsProblem) as error:
            raise BusUnavailable(f"no server says what account {account} is ({type(error).__name__})") from error

    async def replace(self, jwt: str) -> None:
        """Give the servers the new JWT of an account. A connection whose login it revokes is cut."""
        try:
            answer = json.loads((await self._system.request("$SYS.REQ.CLAIMS.UPDATE", jwt.encode(), timeout=3)).data)
        except (nats.errors.Error, TimeoutError, asyncio.InvalidStateError, ValueError) as error:
            raise BusUnavailable(f"no server took an account ({type(error).__name__})") from error
        if not isinstance(answer, dict) or (answer.get("data") or {}).get("code") != _DONE:
            raise BusUnavailable(f"a server refused an account: {str(answer.get('error'))[:200]}")
