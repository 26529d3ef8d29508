"""`python -m clusterra_gateway`."""

from clusterra_gateway.app import main

main()
