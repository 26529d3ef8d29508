"""The routes of service accounts and their keys, for admins and owners."""

from clusterra_gateway.http.route import Named, Route
from clusterra_gateway.idempotency.answer_once import AnswerOnce
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.private_route import CallerRoute
from clusterra_gateway.identity.revocations import Revocations
from clusterra_gateway.identity.token_records import TokenRecords
from clusterra_gateway.identity.tokens import MadeToken
from clusterra_gateway.people.service_accounts.handlers import KEY_ID, NAME, KeyHandlers, ServiceAccountHandlers
from clusterra_gateway.people.service_accounts.models import (
    CreateServiceAccount,
    Keys,
    NewKey,
    RotateKey,
    ServiceAccount,
    ServiceAccountList,
)
from clusterra_gateway.people.service_accounts.service_accounts import ServiceAccounts

SERVICE_ACCOUNTS = "/v1/service-accounts"
SERVICE_ACCOUNT = f"{SERVICE_ACCOUNTS}/{{name}}"
KEYS = f"{SERVICE_ACCOUNT}/keys"
KEY = f"{KEYS}/{{key_id}}"


def routes(
    access: Access, accounts: ServiceAccounts, records: TokenRecords, revocations: Revocations, once: AnswerOnce
) -> tuple[Route, ...]:
    """All routes of this room."""
    of_accounts = ServiceAccountHandlers(accounts, revocations, once)
    of_keys = KeyHandlers(accounts, records, revocations, once)
    return (
        CallerRoute(
            "service_accounts_create",
            "POST",
            SERVICE_ACCOUNTS,
            of_accounts.create,
            access=access,
            scope="members:write",
            role="admin",
            status=201,
            parameters=(IDEMPOTENCY_KEY,),
            body=CreateServiceAccount,
            result=ServiceAccount,
            names=(Named(SERVICE_ACCOUNT, "/name"),),
        ),
        CallerRoute(
            "service_accounts_list",
            "GET",
            SERVICE_ACCOUNTS,
            of_accounts.list,
            access=access,
            scope="members:read",
            role="admin",
            result=ServiceAccountList,
            names=(Named(SERVICE_ACCOUNT, "/service_accounts/0/name"),),
        ),
        CallerRoute(
            "service_accounts_get",
            "GET",
            SERVICE_ACCOUNT,
            of_accounts.get,
            access=access,
            scope="members:read",
            role="admin",
            parameters=(NAME,),
            result=ServiceAccount,
        ),
        CallerRoute(
            "service_accounts_delete",
            "DELETE",
            SERVICE_ACCOUNT,
            of_accounts.delete,
            access=access,
            scope="members:write",
            role="admin",
            parameters=(NAME,),
            status=204,
        ),
        CallerRoute(
            "service_accounts_keys_make",
            "POST",
            KEYS,
            of_keys.make,
            access=access,
            scope="members:write",
            role="admin",
            parameters=(NAME, IDEMPOTENCY_KEY),
            status=201,
            body=NewKey,
            result=MadeToken,
            names=(Named(KEY, "/id"),),
        ),
        CallerRoute(
            "service_accounts_keys_list",
            "GET",
            KEYS,
            of_keys.list,
            access=access,
            scope="members:read",
            role="admin",
            parameters=(NAME,),
            result=Keys,
            names=(Named(KEY, "/keys/0/id"),),
        ),
        CallerRoute(
            "service_accounts_keys_revoke",
            "DELETE",
            KEY,
            of_keys.revoke,
            access=access,
            scope="members:write",
            role="admin",
            parameters=(NAME, KEY_ID),
            status=204,
        ),
        CallerRoute(
            "service_accounts_keys_rotate",
            "POST",
            f"{KEY}/rotate",
            of_keys.rotate,
            access=access,
            scope="members:write",
            role="admin",
            parameters=(NAME, KEY_ID, IDEMPOTENCY_KEY),
            status=201,
            body=RotateKey,
            result=MadeToken,
            names=(Named(KEY, "/id"),),
        ),
    )
