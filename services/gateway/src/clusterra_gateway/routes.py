"""All routes of the gateway, room by room. A new route belongs in the `routes.py` of its room.

The router, `/v1/api-routes` and the OpenAPI document are made from this table, in this order.
"""

from dataclasses import dataclass

from clusterra_runtime import catalogue
from clusterra_runtime.secrets.reader import Secrets

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.accounts.session_records import SessionRecords
from clusterra_gateway.bus.conditions import Conditions
from clusterra_gateway.bus.connection import GatewayBus
from clusterra_gateway.bus.requests import (
    EdgeRequests,
    HistoryRequests,
    LedgerRequests,
    ScalerRequests,
    SlurmRequests,
)
from clusterra_gateway.clusters import fleet_routes, management
from clusterra_gateway.clusters import routes as clusters
from clusterra_gateway.clusters.agents import key_rotation
from clusterra_gateway.clusters.agents import routes as agents
from clusterra_gateway.clusters.agents.exchange import AgentExchange
from clusterra_gateway.clusters.agents.keys import ROTATED as ROTATED_AGENT_KEYS
from clusterra_gateway.clusters.agents.keys import AgentKeys
from clusterra_gateway.clusters.queue_summary import QueueSummaries
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.directory.maps.mapped_users import MappedUsers
from clusterra_gateway.directory.provisioned.directory import ProvisionedDirectory
from clusterra_gateway.directory.scim import routes as scim
from clusterra_gateway.directory.sources import routes as identity_sources
from clusterra_gateway.events import routes as events
from clusterra_gateway.events.audit import routes as audit
from clusterra_gateway.files import routes as files
from clusterra_gateway.files.bounds import Bounds
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.files.file_events import FileEvents
from clusterra_gateway.files.folders import routes as folders
from clusterra_gateway.http import api_description, api_page, problem_types
from clusterra_gateway.http.client_address import ClientAddresses
from clusterra_gateway.http.route import Route
from clusterra_gateway.idempotency.answer_once import AnswerOnce
from clusterra_gateway.identity import routes as identity
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.authentication import Authentication
from clusterra_gateway.identity.cookies import Cookies
from clusterra_gateway.identity.enrolment import Enrolment
from clusterra_gateway.identity.issuers.choice import ServedIssuers
from clusterra_gateway.identity.login import Login
from clusterra_gateway.identity.operators import Operators
from clusterra_gateway.identity.profile import Profiles
from clusterra_gateway.identity.rate_limits import RateLimits, Rates
from clusterra_gateway.identity.revocations import KINDS as REVOCATIONS
from clusterra_gateway.identity.revocations import Revocations
from clusterra_gateway.identity.sessions import SessionKeys
from clusterra_gateway.identity.token_records import TokenRecords
from clusterra_gateway.identity.tokens import ApiTokens
from clusterra_gateway.jobs import cancel_many, changes, estimates, explanations
from clusterra_gateway.jobs import routes as jobs
from clusterra_gateway.jobs.estimates import Estimates
from clusterra_gateway.jobs.explanations import Explanations
from clusterra_gateway.jobs.output import routes as output
from clusterra_gateway.jobs.routes import Jobs
from clusterra_gateway.money.budgets import routes as budgets
from clusterra_gateway.money.costs import job_steps as step_costs
from clusterra_gateway.money.costs import routes as costs
from clusterra_gateway.money.costs import summary_routes as cost_summaries
from clusterra_gateway.money.quotas import routes as quotas
from clusterra_gateway.money.quotas.admission import Admission
from clusterra_gateway.money.quotas.priced_updates import PricedUpdates
from clusterra_gateway.money.quotas.reservations import Reservations
from clusterra_gateway.people.invitations import routes as invitations
from clusterra_gateway.people.invitations.invitations import Invitations
from clusterra_gateway.people.members import routes as members
from clusterra_gateway.people.members.membership import Membership
from clusterra_gateway.people.memberships import routes as memberships
from clusterra_gateway.people.service_accounts import routes as service_accounts
from clusterra_gateway.people.service_accounts.service_accounts import ServiceAccounts
from clusterra_gateway.program_sign_in.device_flow import routes as device_flow
from clusterra_gateway.program_sign_in.device_flow.flows import DeviceFlows
from clusterra_gateway.program_sign_in.device_flow.program_side import ProgramSide as DeviceProgramSide
from clusterra_gateway.program_sign_in.loopback import routes as loopback
from clusterra_gateway.program_sign_in.loopback.authorization_codes import AuthorizationCodes
from clusterra_gateway.program_sign_in.loopback.program_side import ProgramSide as LoopbackProgramSide
from clusterra_gateway.program_sign_in.oauth import routes as oauth
from clusterra_gateway.program_sign_in.oauth.grants import ProgramTokens
from clusterra_gateway.program_sign_in.oauth.server_metadata import ServerDescription
from clusterra_gateway.program_sign_in.oauth.token_endpoint import TokenEndpoint
from clusterra_gateway.sessions import routes as sessions
from clusterra_gateway.sessions.entrance import Entrance
from clusterra_gateway.sessions.handlers import Sessions
from clusterra_gateway.sessions.opening_page import OpeningPage
from clusterra_gateway.sessions.session_jobs import SessionJobs
from clusterra_gateway.sessions.tickets import Tickets
from clusterra_gateway.settings import Settings
from clusterra_gateway.slurmrestd import routes as slurmrestd
from clusterra_gateway.staging.job_stagings import JobStagings
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.submission.planning import Planning
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.submits.held_submits import HeldSubmits
from clusterra_gateway.submits.keys import SubmitKeys
from clusterra_gateway.templates import routes as templates
from clusterra_gateway.templates import schedule_routes
from clusterra_gateway.templates.launches import Launches, Preparations
from clusterra_gateway.templates.library import Library
from clusterra_gateway.templates.records import TemplateRecords
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.tenants import cluster_routes as tenant_clusters
from clusterra_gateway.tenants import routes as tenants
from clusterra_gateway.tenants.deletions import Deletions
from clusterra_gateway.tenants.tenants import Tenants
from clusterra_gateway.workflows import routes as workflows
from clusterra_gateway.workflows.advance import RunWork
from clusterra_gateway.workflows.run_records import RunRecords
from clusterra_gateway.workflows.start import RunStarts


@dataclass(frozen=True)
class SignIn:
    """With what people sign in."""

    session_keys: SessionKeys
    issuers: ServedIssuers


@dataclass(frozen=True)
class Submitting:
    """What submits jobs, for requests and for background work alike. A process has one."""

    buckets: Buckets
    bounds: Bounds
    stagings: StagingRecords
    admission: Admission
    desk: SubmitDesk
    runs: RunRecords
    run_work: RunWork
    run_starts: RunStarts

    @classmethod
    def on(cls, settings: Settings, directory: Directory, bus: GatewayBus, buckets: Buckets) -> "Submitting":
        """What submits jobs with these connections."""
        store, slurm = directory.store, SlurmRequests(bus.client)
        bounds = Bounds(settings.files_url_seconds, settings.files_url_max_seconds, settings.files_max_bytes)
        edge = EdgeRequests(bus.client, settings.edge_timeout_seconds)
        planning = Planning(buckets, bounds, edge, bus.registry)
        stagings, admission = StagingRecords(store), Admission(Reservations(store), slurm, bus.registry)
        desk = SubmitDesk(slurm, SubmitKeys(store), admission, planning, HeldSubmits(stagings))
        runs = RunRecords(store)
        work = RunWork(runs, directory, MappedUsers(MapRecords(store)), slurm, desk)
        return cls(buckets, bounds, stagings, admission, desk, runs, work, RunStarts(runs, work, planning))


def gateway_routes(
    settings: Settings,
    sign_in: SignIn,
    directory: Directory,
    library: Library,
    bus: GatewayBus,
    secrets: Secrets,
    submitting: Submitting,
) -> tuple[Route, ...]:
    """The routes of all rooms. Each room gets exactly the objects that its handlers use."""
    slurm = SlurmRequests(bus.client)
    edge = EdgeRequests(bus.client, settings.edge_timeout_seconds)
    scaler = ScalerRequests(bus.client)
    archive = HistoryRequests(bus.client)
    ledger = LedgerRequests(bus.client)
    operators = Operators(settings.operators_file)
    authentication = Authentication(
        directory, sign_in.session_keys, settings.origins, operators, secure=settings.secure
    )
    limits = RateLimits(Rates(settings.reads_per_minute, settings.changes_per_minute))
    cookies = Cookies(sign_in.session_keys, settings)
    map_records = MapRecords(directory.store)
    unix_users = MappedUsers(map_records)
    access = Access(authentication, bus.registry, limits, cookies, unix_users)
    revocations = Revocations(authentication, access.streams, bus.revocations, bus.registry)
    bus.feed.observe(REVOCATIONS, revocations.on_event)
    bus.revocations.observe(revocations.on_revocation)
    agent_keys = AgentKeys(directory, bus.registry)
    bus.feed.observe(ROTATED_AGENT_KEYS, agent_keys.on_event)
    provisioned = ProvisionedDirectory(directory.store)
    login = Login(
        sign_in.issuers,
        Enrolment(directory, provisioned, bus.registry, default_issuer=settings.oidc_issuer),
        cookies,
        authentication,
        revocations,
    )
    desk, reservations = submitting.desk, submitting.admission.reservations
    runs, run_work, run_starts = submitting.runs, submitting.run_work, submitting.run_starts
    updates = PricedUpdates(reservations, slurm, bus.registry)
    planned = Estimates(slurm, scaler)
    token_records = TokenRecords(directory, bus.registry)
    program_tokens = ProgramTokens(directory, token_records, revocations)
    flows, codes = DeviceFlows(directory.store), AuthorizationCodes(directory.store)
    addresses = ClientAddresses(settings.trusted_proxies)
    device = DeviceProgramSide(flows, program_tokens, settings.own_issuer, addresses)
    token_endpoint = TokenEndpoint(LoopbackProgramSide(codes, program_tokens).redeem, device.redeem, addresses)
    queues = QueueSummaries(bus.client, bus.registry)
    once = AnswerOnce(directory.store)
    shapes = None if settings.catalogue_file is None else catalogue.load(settings.catalogue_file)
    all_tenants, deletions = Tenants(directory, bus.registry, shapes), Deletions(directory, bus.registry)
    projection = Projection(directory, bus.client, bus.registry)
    api_tokens = ApiTokens(token_records, revocations, once)
    membership = Membership(directory, provisioned, bus.registry)
    template_records = TemplateRecords(directory, bus.registry)
    job_stagings = JobStagings(submitting.stagings)
    launches = Launches(Preparations(library), desk, run_starts, access, bus.registry)
    session_records = SessionRecords(directory.store)
    session_jobs = SessionJobs(session_records, slurm, edge)
    entrance = Entrance(settings.sessions_url, sign_in.session_keys, bus.registry, Tickets(directory.store))
    return (
        *identity.routes(access, login, Profiles(directory, ledger, bus.registry, unix_users), api_tokens),
        *oauth.routes(token_endpoint, ServerDescription(settings.own_issuer)),
        *device_flow.routes(access, flows, program_tokens, device),
        *loopback.routes(access, codes, program_tokens, settings.own_issuer),
        *members.routes(access, membership, token_records, revocations),
        *scim.routes(access, directory, bus.registry, membership, revocations, settings.own_issuer),
        *memberships.routes(access, directory, cookies, authentication, revocations),
        *invitations.routes(access, Invitations(directory, bus.registry), once),
        *service_accounts.routes(access, ServiceAccounts(directory, bus.registry), token_records, revocations, once),
        *clusters.routes(access, bus.registry, bus.edges, Conditions(bus.client), queues),
        *management.routes(access, directory, projection),
        *identity_sources.routes(access, map_records, bus.registry),
        *key_rotation.routes(access, directory, once),
        *tenants.routes(access, directory, bus.registry, all_tenants, once),
        *tenant_clusters.routes(access, all_tenants, directory, deletions, projection, once),
        *fleet_routes.routes(access, archive, bus.client),
        *jobs.routes(access, Jobs(slurm, desk, planned, ledger, bus.feed, launches, job_stagings)),
        *explanations.routes(access, Explanations(slurm, scaler, archive, job_stagings)),
        *estimates.routes(access, planned),
        *changes.routes(access, slurm, updates, directory.store),
        *cancel_many.routes(access, slurm, once),
        *workflows.routes(access, runs, run_work, run_starts, launches),
        *templates.routes(access, template_records, library, launches, once),
        *schedule_routes.routes(access, ScheduleRecords(directory), launches, once),
        *sessions.routes(
            access,
            Sessions(launches, desk, session_records, session_jobs, entrance, slurm),
            OpeningPage(access, session_jobs, entrance),
        ),
        *slurmrestd.routes(access, slurm, updates, desk),
        *output.routes(access, slurm, edge, bus.feed),
        *files.routes(access, submitting.buckets, submitting.bounds, FileEvents(directory.outbox), once),
        *folders.routes(access, edge),
        *events.routes(access, archive, bus.feed),
        *audit.routes(access, archive),
        *costs.routes(access, ledger),
        *step_costs.routes(access, slurm, ledger),
        *cost_summaries.routes(access, bus.registry, ledger, slurm),
        *quotas.routes(access, directory, reservations, bus.registry, unix_users),
        *budgets.routes(access, directory, ledger, bus.registry, unix_users),
        *agents.routes(agent_keys, AgentExchange(bus.client, bus.registry, secrets)),
        *problem_types.ROUTES,
        *api_description.ROUTES,
        *api_page.ROUTES,
    )
