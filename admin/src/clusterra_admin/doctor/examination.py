"""All checks of one run: which there are, and what is skipped when what they need does not work."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version

import aiohttp
from clusterra_contracts.bus.topology import BUCKETS, CONSUMERS, STREAMS
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.keyspace import FORMS as GATEWAY
from clusterra_gateway.settings import IssuerKind
from clusterra_runtime.nats import bus
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.dynamodb_client import Client as DynamoDBClient
from clusterra_runtime.store.store import StoreError
from clusterra_scaler.fleet_table import FORMS as SCALER

from clusterra_admin.doctor import dead_letters, nats_server, record, services, streams
from clusterra_admin.doctor.certificates import CHECK as CERTIFICATE
from clusterra_admin.doctor.certificates import check_certificate
from clusterra_admin.doctor.clusters import Bindings, check_slurm, compare_with_record, read_registry
from clusterra_admin.doctor.connection import DoctorClient, NotConnected
from clusterra_admin.doctor.credentials import check_credentials, check_logins
from clusterra_admin.doctor.edges import CHECK as HEARTBEAT
from clusterra_admin.doctor.edges import check_edges
from clusterra_admin.doctor.finding import Finding, Report, failure, ok, skipped, summary_of
from clusterra_admin.doctor.issuer import ADVICE as ISSUER_ADVICE
from clusterra_admin.doctor.issuer import check_issuer, further_issuers
from clusterra_admin.doctor.probe import Probe, Schedule
from clusterra_admin.doctor.settings import DoctorSettings
from clusterra_admin.doctor.watching import (
    CONDITION,
    SNAPSHOT,
    check_conditions,
    check_snapshot,
    without_consequences,
)
from clusterra_admin.tables.declared import TABLES

EACH_SECONDS = 10.0
CONNECT_SECONDS = 5.0
CLUSTER_SECONDS = 9.0
CONCURRENCY = 128
"""A thousand clusters whose Slurm does not answer take eight rounds of this many."""
NATS_DOWN = "check CLUSTERRA_NATS_URL, the credentials and the network; a server's log tells why it refuses"
PROXY_ADVICE = "look into the log of the proxy's replicas"
_TOLD_BY_PROXY = ("clusters.slurm", CONDITION, SNAPSHOT)


async def examine(settings: DoctorSettings, total_seconds: float) -> Report:
    """Check everything within `total_seconds`. Never raises for what it finds."""
    began, started_at = now(), time.monotonic()
    schedule = Schedule(total_seconds, EACH_SECONDS, CONCURRENCY)
    client, dynamodb = DoctorClient(), DynamoDBClient()
    try:
        # aiohttp's own context is older than this process' SSL_CERT_FILE may be.
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context())
        async with aiohttp.ClientSession(connector=connector) as http:
            findings = await Examination(settings, schedule, client, dynamodb, http).run()
    finally:
        await bus.close(client)
        await dynamodb.close()
    found = tuple(findings)
    return Report(
        version=version("clusterra-admin"),
        checked_at=began,
        seconds=round(time.monotonic() - started_at, 3),
        summary=summary_of(found),
        findings=found,
    )


class Examination:
    """One run over open connections."""

    def __init__(
        self,
        settings: DoctorSettings,
        schedule: Schedule,
        client: DoctorClient,
        dynamodb: DynamoDBClient,
        http: aiohttp.ClientSession,
    ) -> None:
        self._settings = settings
        self._schedule = schedule
        self._client = client
        self._dynamodb = dynamodb
        self._http = http

    async def run(self) -> list[Finding]:
        """Run every check. The parts do not wait for each other."""
        parts = await asyncio.gather(self._nats(), self._record(), self._outside())
        return [finding for part in parts for finding in part]

    async def _outside(self) -> list[Finding]:
        """What is reached over HTTP: the issuers and the gateway, with their certificates."""
        issuer, gateway = self._settings.oidc_issuer, self._settings.public_url
        findings = []
        probes = []
        if issuer is None:
            findings.append(skipped("issuer.discovery", "CLUSTERRA_OIDC_ISSUER is not set"))
        else:
            probes += self._of_issuer(issuer, self._settings.oidc_kind)
        if gateway is None:
            findings.append(skipped("services.gateway", "CLUSTERRA_PUBLIC_URL is not set"))
        else:
            advice = "check CLUSTERRA_PUBLIC_URL and that the gateway runs"
            probes += [
                Probe("services.gateway", partial(services.check_gateway, self._http, gateway), advice, gateway),
                Probe(CERTIFICATE, partial(check_certificate, "gateway", gateway), advice, gateway),
            ]
            for further in await further_issuers(self._http, gateway, self._schedule.seconds / 3):
                probes += self._of_issuer(further.issuer, further.kind)
        return [*findings, *await self._schedule.run(probes)]

    def _of_issuer(self, issuer: str, kind: IssuerKind) -> list[Probe]:
        return [
            Probe("issuer.discovery", partial(check_issuer, self._http, issuer, kind), ISSUER_ADVICE, issuer),
            Probe(CERTIFICATE, partial(check_certificate, "issuer", issuer), ISSUER_ADVICE, issuer),
        ]

    async def _record(self) -> list[Finding]:
        """DynamoDB and its tables."""
        names = {table: f"{self._settings.table_prefix}{table.name}" for table in TABLES}
        first = names[TABLES[0]]
        not_looked_at = [skipped("record.table", "DynamoDB does not answer", about=each) for each in names.values()]
        try:
            await self._dynamodb.open()
        except StoreError as error:
            return [failure(record.CONNECTION, str(error), record.REACH), *not_looked_at]
        reach = Probe(record.CONNECTION, partial(record.check_store, self._dynamodb, first), record.REACH)
        found = await self._schedule.run([reach])
        if any(finding.status == "failure" and finding.check == record.CONNECTION for finding in found):
            return [*found, *not_looked_at]
        probes = [
            Probe("record.table", partial(record.check_table, self._dynamodb, table, name), record.REACH, name)
            for table, name in names.items()
        ]
        async with DynamoDBStore(table_prefix=self._settings.table_prefix) as store:
            probes += [
                Probe("record.level", partial(record.check_level, store, forms, name), record.REACH, name)
                for forms in (GATEWAY, SCALER)
                for name in [names[forms.table]]
            ]
            return found + await self._schedule.run(probes)

    async def _nats(self) -> list[Finding]:
        """NATS, and what is asked over it: services, clusters and edges."""
        try:
            await self._client.open_within(self._settings, min(CONNECT_SECONDS, self._schedule.seconds))
        except NotConnected as error:
            return [failure("nats.connection", str(error), NATS_DOWN), *_not_asked("there is no connection to NATS")]
        found = [
            ok("nats.connection", f"connected to {self._settings.nats_url}"),
            check_credentials(self._settings.nats_credentials_file),
        ]
        client = self._client
        found += await self._schedule.run(
            [
                Probe("nats.version", partial(nats_server.check_server, client), NATS_DOWN),
                Probe("nats.rights", partial(nats_server.check_rights, client), NATS_DOWN),
            ]
        )
        if _failed(found, "nats.rights"):
            return [*found, *_not_asked("these credentials lack rights")]
        found += await self._schedule.run(
            [Probe("nats.jetstream", partial(nats_server.check_jetstream, client), NATS_DOWN)]
        )
        if _failed(found, "nats.jetstream"):
            return [*found, *_not_asked("JetStream does not work")]
        return found + await self._over_nats(client)

    async def _over_nats(self, client: DoctorClient) -> list[Finding]:
        names = [stream.name for stream in STREAMS] + [f"KV_{bucket.name}" for bucket in BUCKETS]
        probes = [
            Probe("nats.topology", partial(streams.check_topology, client), NATS_DOWN),
            *(Probe("nats.stream", partial(streams.check_stream, client, name), NATS_DOWN, name) for name in names),
            *(
                Probe(
                    "nats.lag", partial(streams.check_consumer, client, each), NATS_DOWN, f"{each.stream}/{each.name}"
                )
                for each in CONSUMERS
            ),
            Probe(dead_letters.CHECK, partial(dead_letters.check_dead_letters, client), NATS_DOWN),
            Probe(dead_letters.ADVISORIES, partial(dead_letters.check_advisories, client), NATS_DOWN),
            Probe("clocks.skew", partial(streams.check_server_clock, client), NATS_DOWN, "NATS"),
            Probe("nats.credentials", partial(check_logins, client), NATS_DOWN),
            Probe("services.versions", partial(services.check_versions, client), NATS_DOWN),
            Probe("services.replicas", partial(services.check_archive, client), NATS_DOWN, "events"),
            *(
                Probe("services.replicas", partial(services.check_lease_holders, client, name), NATS_DOWN, name)
                for name in services.SHARDS
            ),
        ]
        found = await self._schedule.run(probes)
        # Where only some shards are held, the clusters of the others are found by their checks.
        proxy = not any(each.about == "proxy" and each.seen == services.NO_REPLICA for each in found)
        return found + await self._clusters(client, proxy=proxy)

    async def _clusters(self, client: DoctorClient, *, proxy: bool) -> list[Finding]:
        try:
            async with asyncio.timeout(max(self._schedule.seconds, 0.1)):
                bindings = await read_registry(client)
        except TimeoutError:
            return [failure("clusters.registry", "the registry could not be read in time", NATS_DOWN)]
        found = list(bindings.findings)
        if not bindings.readable:
            return found
        found += await self._schedule.run(self._cluster_probes(client, bindings, proxy=proxy))
        if not proxy:
            return [*found, *(skipped(check, "no replica of the proxy is alive") for check in _TOLD_BY_PROXY)]
        return without_consequences(found)

    def _cluster_probes(self, client: DoctorClient, bindings: Bindings, *, proxy: bool) -> list[Probe]:
        probes = [
            Probe("clusters.registry", partial(self._compare, bindings), record.REACH),
            Probe(HEARTBEAT, partial(check_edges, client, bindings.clusters), NATS_DOWN),
        ]
        if proxy:
            seconds = min(CLUSTER_SECONDS, self._schedule.seconds)
            probes.append(Probe(CONDITION, partial(check_conditions, client, bindings.clusters), NATS_DOWN))
            for ref, binding in sorted(bindings.clusters.items(), key=lambda each: str(each[0])):
                slurm = partial(check_slurm, client, ref, binding, seconds)
                probes += [
                    Probe("clusters.slurm", slurm, PROXY_ADVICE, str(ref)),
                    Probe(SNAPSHOT, partial(check_snapshot, client, ref, binding), NATS_DOWN, str(ref)),
                ]
        return probes

    async def _compare(self, bindings: Bindings) -> list[Finding]:
        async with DynamoDBStore(table_prefix=self._settings.table_prefix) as store:
            return await compare_with_record(store, bindings)


def _failed(findings: Sequence[Finding], check: str) -> bool:
    return any(finding.check == check and finding.status == "failure" for finding in findings)


def _not_asked(reason: str) -> list[Finding]:
    checks = ("nats.topology", "services.replicas", "clusters.slurm", HEARTBEAT)
    return [skipped(check, reason) for check in checks]
