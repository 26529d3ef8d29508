"""`python -m clusterra_scaler`."""

from clusterra_scaler.app import main

main()
