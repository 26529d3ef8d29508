"""Builds the objects that several rooms share, each once. What only one room uses, its `room.py` builds."""

from dataclasses import dataclass

from clusterra_templates.definitions import Definition

from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.connections import Connections
from clusterra_gateway.console.site import Site
from clusterra_gateway.directory.room import DirectoryParts
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.files.room import FileParts
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.identity.issuers.choice import ServedIssuers
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.jobs.room import JobParts
from clusterra_gateway.money.quotas.admission import Admission, PricedUpdates
from clusterra_gateway.money.quotas.reservations import Reservations
from clusterra_gateway.people.invitations import Invitations
from clusterra_gateway.people.membership import Membership
from clusterra_gateway.staging.staging_records import JobStagings, StagingRecords
from clusterra_gateway.submission.planning import Planning
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.submits.held_submits import HeldSubmits
from clusterra_gateway.submits.keys import SubmitKeys
from clusterra_gateway.templates.launches import Launches
from clusterra_gateway.templates.library import Library
from clusterra_gateway.templates.records import TemplateRecords
from clusterra_gateway.templates.rendering import Renderings
from clusterra_gateway.templates.room import TemplateParts
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.templates.scheduled_submits import ScheduledSubmits
from clusterra_gateway.templates.ticking import Ticking
from clusterra_gateway.workflows.controller import WorkflowController
from clusterra_gateway.workflows.room import WorkflowParts
from clusterra_gateway.workflows.start import WorkflowStarts
from clusterra_gateway.workflows.workflow_records import WorkflowRecords


@dataclass(frozen=True)
class SignIn:
    """With what people sign in."""

    signing_keys: SigningKeys
    issuers: ServedIssuers


@dataclass(frozen=True)
class Installed:
    """What was installed beside the gateway, and is read at its start."""

    catalogue: dict[str, Definition]
    site: Site | None = None
    """The console; None: there is none."""


@dataclass(frozen=True)
class Parts:
    """The shared objects of a process."""

    connections: Connections
    issuers: ServedIssuers
    identity: IdentityParts
    directory: DirectoryParts
    projection: Projection
    membership: Membership
    invitations: Invitations
    once: AnswerOnce
    reservations: Reservations
    files: FileParts
    stagings: StagingRecords
    jobs: JobParts
    workflows: WorkflowParts
    templates: TemplateParts
    ticking: Ticking
    site: Site | None


def build_parts(connections: Connections, sign_in: SignIn, buckets: Buckets, installed: Installed) -> Parts:
    """All shared objects over these connections. Nothing is sent yet. Raises SettingsFileInvalid."""
    bus, directory = connections.bus, connections.directory
    store, registry = directory.store, bus.registry
    people = DirectoryParts.of(store)
    identity = IdentityParts.of(connections, sign_in.signing_keys, people.unix_users)
    files = FileParts.of(connections.settings, buckets)
    reservations, stagings = Reservations(store), StagingRecords(store)
    admission = Admission(reservations, bus.slurm, registry)
    planning = Planning(files.buckets, files.bounds, bus.edge, registry)
    desk = SubmitDesk(bus.slurm, SubmitKeys(store), admission, planning, HeldSubmits(stagings))
    workflow_records = WorkflowRecords(store, directory.outbox)
    controller = WorkflowController(workflow_records, directory, people.unix_users, bus.slurm, desk)
    workflows = WorkflowParts(workflow_records, controller, WorkflowStarts(workflow_records, controller, planning))
    records = TemplateRecords(directory, registry)
    library = Library(installed.catalogue, records)
    renderings = Renderings(library)
    owners = (directory, people.unix_users)
    schedules = ScheduleRecords(directory)
    templates = TemplateParts(
        records,
        library,
        Launches(renderings, desk, workflows.starts, identity.access, registry),
        schedules,
        ScheduledSubmits(schedules, owners, renderings, bus.slurm, workflows, desk),
    )
    return Parts(
        connections=connections,
        issuers=sign_in.issuers,
        identity=identity,
        directory=people,
        projection=Projection(directory, bus.client, registry),
        membership=Membership(directory, people.provisioned, people.unix_users, registry, identity.revocations),
        invitations=Invitations(directory, registry),
        once=AnswerOnce(store),
        reservations=reservations,
        files=files,
        stagings=stagings,
        jobs=JobParts(desk, PricedUpdates(reservations, bus.slurm, registry), JobStagings(stagings)),
        workflows=workflows,
        templates=templates,
        ticking=Ticking(templates.schedules, templates.scheduled),
        site=installed.site,
    )
