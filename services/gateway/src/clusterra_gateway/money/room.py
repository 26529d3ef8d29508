"""The room of money: what jobs cost, quotas, and budgets."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.money.budgets.handlers import BudgetHandlers
from clusterra_gateway.money.budgets.sweep import BudgetSweep
from clusterra_gateway.money.costs.handlers import Costs
from clusterra_gateway.money.costs.job_steps import JobStepCosts
from clusterra_gateway.money.costs.summary_handlers import Summaries
from clusterra_gateway.money.quotas.handlers import QuotaHandlers
from clusterra_gateway.money.quotas.reservations import Reservations
from clusterra_gateway.money.quotas.sweep import WAKING, QuotaSweep
from clusterra_gateway.room import Observed, Room


def room(connections: Connections, identity: IdentityParts, reservations: Reservations) -> Room:
    """What this room offers."""
    access, unix_users = identity.access, identity.unix_users
    directory, bus = connections.directory, connections.bus
    sweep = QuotaSweep(reservations, bus.slurm, bus.ledger, bus.registry)
    budgets = BudgetSweep(directory, bus.ledger, bus.registry)
    return Room(
        routes=routes_of(
            Costs(bus.ledger),
            JobStepCosts(bus.slurm, bus.ledger),
            Summaries(access, bus.registry, bus.ledger, bus.slurm),
            QuotaHandlers(directory, reservations, bus.registry, unix_users),
            BudgetHandlers(directory, bus.ledger, bus.registry, unix_users),
            access=access,
        ),
        background={"quotas": sweep.sweeper().run, "budgets": budgets.sweeper().run},
        background_observers=(Observed(WAKING, sweep.on_event),),
    )
