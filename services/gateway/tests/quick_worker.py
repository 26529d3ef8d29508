"""The gateway's background work, always looking for workflows: a script in place of `clusterra-gateway work`."""

from clusterra_gateway.app import main
from clusterra_gateway.workflows import sweep

if __name__ == "__main__":
    sweep.INTERVAL_SECONDS = 0.2
    main()
