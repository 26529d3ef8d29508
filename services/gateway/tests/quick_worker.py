"""The gateway's background work, always looking for workflows: a script in place of `clusterra-gateway work`."""

from clusterra_gateway.app import main
from clusterra_gateway.workflows import controller

if __name__ == "__main__":
    controller.INTERVAL_SECONDS = 0.2
    main()
