"""`python -m clusterra_gateway` runs the gateway."""

from clusterra_gateway.app import main

main()
