"""All migrations, in the order in which they are applied."""

from clusterra_admin.migrations import fleet_states
from clusterra_admin.migrations.migration import Migration

MIGRATIONS: tuple[Migration, ...] = (fleet_states.MIGRATION,)
"""For each table numbered from 1 without a gap; a test checks it. A migration never changes after its release."""
