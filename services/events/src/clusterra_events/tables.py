"""The tables of the events service, and what it does with each."""

from clusterra_events.archive_table import USE as ARCHIVE
from clusterra_events.ledger.keyspace import USE as LEDGER
from clusterra_events.webhooks.definitions import READ as WEBHOOKS
from clusterra_events.webhooks.state_table import USE as DELIVERIES

TABLES = (ARCHIVE, LEDGER, WEBHOOKS, DELIVERIES)
