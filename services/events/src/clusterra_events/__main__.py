"""`python -m clusterra_events`."""

from clusterra_events.app import main

main()
