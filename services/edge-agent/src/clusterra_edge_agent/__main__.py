"""Entry point of `python -m clusterra_edge_agent`."""

from clusterra_edge_agent.app import main

main()
