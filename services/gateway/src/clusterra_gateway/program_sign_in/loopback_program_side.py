"""The program redeems the code that the browser has brought."""

from clusterra_contracts.identity import now

from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.program_sign_in.authorization_codes import AuthorizationCodes
from clusterra_gateway.program_sign_in.grants import ProgramTokens
from clusterra_gateway.program_sign_in.oauth_routes import OAuthFailure
from clusterra_gateway.program_sign_in.token_endpoint import CodeGrant


class LoopbackProgramSide:
    """Redeems codes for tokens."""

    def __init__(self, codes: AuthorizationCodes, tokens: ProgramTokens) -> None:
        self._codes = codes
        self._tokens = tokens

    async def redeem(self, asked: CodeGrant) -> FreshToken:
        """Makes the token of a code, once. Revokes it when the program redeems the code again. Raises OAuthFailure."""
        known = await self._codes.known(asked.code)
        if known is None or not known.record.belongs_to(asked.redirect_uri, asked.code_verifier):
            raise OAuthFailure("invalid_grant", "the code, its redirect_uri or its code_verifier is wrong")
        if known.record.state == "redeemed":
            await self._tokens.withdraw(known.record, known.record.token_id)
            raise OAuthFailure("invalid_grant", "this code was redeemed before, and its token is revoked now")
        if known.record.valid_until <= now():
            raise OAuthFailure("invalid_grant", "this code has expired: begin again")
        return await self._tokens.issue(known.record, known.redeemed)
