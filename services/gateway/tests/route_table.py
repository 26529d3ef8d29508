"""The gateway's routes for reading: names, paths, models, descriptions. Their handlers are connected to nothing."""

from functools import cache

import aiohttp
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.bus.connection import GatewayBus
from clusterra_gateway.connections import Connections
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.http.routes.route import Route
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.identity.issuers.choice import ServedIssuers
from clusterra_gateway.identity.issuers.configuration import configured_issuers
from clusterra_gateway.parts import Installed, SignIn, build_parts
from clusterra_gateway.rooms import rooms
from clusterra_gateway.settings import Settings
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from joserfc.jwk import KeySet, OctKey


def example_path(route: Route, cluster: str = "main") -> str:
    """The path of a route about the job 7, which exists in the tests that need one."""
    names = {
        "version": "v0.0.45",
        "view_name": "mine",
        "node_name": "w1",
        "partition_name": "main",
        "operation": "reconfigure",
        "run_id": "0" * 32,
        "upload_id": "0" * 32,
        "issuer_name": "google",
        "template_id": "shell",
        "launchable_id": "shell",
        "number": "1",
        "schedule_id": "0" * 16,
        "scope": "user",
        "scope_name": "ada",
        "type_name": "User",
        "schema_id": "urn:ietf:params:scim:schemas:core:2.0:User",
        "resource_id": "0" * 32,
        "bus_credential_id": f"bc_{'0' * 16}",
        "webhook_id": f"wh_{'0' * 16}",
    }
    return route.path.format(
        cluster_id=cluster,
        job_id="7",
        token_id="0" * 16,
        key_id="0" * 16,
        invitation_id="0" * 16,
        link_id="0" * 16,
        tenant_id="acme",
        member_id="0" * 32,
        name="internal",
        **names,
    )


@cache
def route_table() -> tuple[Route, ...]:
    async def publish(*_message: object) -> None:
        raise AssertionError("these routes answer no requests")

    settings = Settings(oidc_issuer="https://issuer.example", oidc_client_id="clusterra")
    store, client, registry, secrets = MemoryStore(), Client(), Registry(), Secrets()
    http: aiohttp.ClientSession = None  # type: ignore[assignment]  # cannot be made without a running loop
    issuers = ServedIssuers(http, configured_issuers(settings), settings.redirect_uri)
    bus = GatewayBus.over(client, registry, edge_timeout_seconds=settings.edge_timeout_seconds)
    connections = Connections(settings, Directory(store, Outbox(store, publish)), bus, secrets)
    sign_in = SignIn(SigningKeys(KeySet([OctKey.generate_key(256)])), issuers)
    parts = build_parts(connections, sign_in, Buckets(registry, secrets), Installed({}))
    return tuple(route for room in rooms(parts) for route in room.routes)
