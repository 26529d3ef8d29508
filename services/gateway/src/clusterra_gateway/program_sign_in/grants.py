"""What a person has granted to a program, and the API token that the program gets for it."""

from collections.abc import Callable
from contextlib import suppress

import structlog
from clusterra_contracts.identity import Moment
from clusterra_runtime.store.store import Update

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member, Record
from clusterra_gateway.accounts.roles import Scope
from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.identity.tokens.token_records import MAX_TOKENS, AlreadyRedeemed, FreshToken, TokenRecords
from clusterra_gateway.program_sign_in.oauth_routes import OAuthFailure

log = structlog.get_logger()


class Grant(Record):
    """What was granted, and until when it can be redeemed."""

    machine: str
    scopes: tuple[Scope, ...]
    token_seconds: int
    valid_until: Moment
    member: str = ""
    """The id of the member who has granted it."""


class ProgramTokens:
    """The API tokens of programs."""

    def __init__(self, directory: Directory, tokens: TokenRecords) -> None:
        self._directory = directory
        self._tokens = tokens

    async def check_room(self, member: Member) -> None:
        """Raises Conflict where the member can have no other token. It is checked again when the token is made."""
        if len(await self._tokens.valid(member.id)) >= MAX_TOKENS:
            raise Conflict(f"you have {MAX_TOKENS} tokens, the most allowed", hint="revoke one and try again")

    async def issue(self, grant: Grant, redeemed: Callable[[FreshToken], Update]) -> FreshToken:
        """Makes the token of a grant. `redeemed` is the write that redeems the grant, if that can be done now.

        Both writes happen, or none. Raises OAuthFailure.
        """
        member = await self._directory.member(grant.member)
        if member is None or member.disabled:
            raise OAuthFailure("access_denied", "the person who approved the request is no longer a member")
        made = FreshToken.made(member.id, grant.machine, seconds=grant.token_seconds, scopes=grant.scopes)
        try:
            await self._tokens.redeem(member, made, redeemed(made))
        except AlreadyRedeemed:
            raise OAuthFailure("invalid_grant", "this code was redeemed: begin again") from None
        except Conflict as conflict:
            raise OAuthFailure("access_denied", f"{conflict.detail}: {conflict.hint}") from None
        log.info("program_signed_in", tenant=member.tenant, user=member.user, token_id=made.id)
        return made

    async def withdraw(self, grant: Grant, token_id: str) -> None:
        """Revokes the token that a grant was redeemed for, if there still is one."""
        member = await self._directory.member(grant.member)
        if member is None:
            return
        with suppress(NotFound):
            await self._tokens.revoke(member, member.id, token_id)
            log.warning("redeemed_twice", tenant=member.tenant, user=member.user, token_id=token_id)
