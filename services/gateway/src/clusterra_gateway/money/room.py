"""The room of money: what jobs cost, quotas, and budgets."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.money.budgets import routes as budgets
from clusterra_gateway.money.budgets.sweep import BudgetSweep
from clusterra_gateway.money.costs import job_steps, summary_routes
from clusterra_gateway.money.costs import routes as costs
from clusterra_gateway.money.quotas import routes as quotas
from clusterra_gateway.money.quotas.reservations import Reservations
from clusterra_gateway.money.quotas.sweep import WAKING, QuotaSweep
from clusterra_gateway.room import Observed, Room


def room(connections: Connections, identity: IdentityParts, reservations: Reservations) -> Room:
    """What this room offers."""
    access, unix_users = identity.access, identity.unix_users
    directory, bus = connections.directory, connections.bus
    sweep = QuotaSweep(reservations, bus.slurm, bus.ledger, bus.registry)
    return Room(
        routes=(
            *costs.routes(access, bus.ledger),
            *job_steps.routes(access, bus.slurm, bus.ledger),
            *summary_routes.routes(access, bus.registry, bus.ledger, bus.slurm),
            *quotas.routes(access, directory, reservations, bus.registry, unix_users),
            *budgets.routes(access, directory, bus.ledger, bus.registry, unix_users),
        ),
        background={"quotas": sweep.run, "budgets": BudgetSweep(directory, bus.ledger, bus.registry).run},
        observers=(Observed(WAKING, sweep.on_event),),
    )
