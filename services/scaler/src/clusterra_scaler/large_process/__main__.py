"""`python -m clusterra_scaler.large_process FD`: the process for large clusters, started by a scaler (`large.process`).

It has the scaler's environment, and ends with it: when the socket FD is closed.
"""

import asyncio
import os
import signal
import socket
import sys

from clusterra_runtime import logs, tracing
from clusterra_runtime.interpreter import collect_seldom, switch_often

from clusterra_scaler.fleets import SERVICE
from clusterra_scaler.large_process.app import serve
from clusterra_scaler.large_process.process import NAME
from clusterra_scaler.settings import Settings

NICENESS = 5
"""While CPUs are scarce, small clusters come first."""
LAST_SPANS_SECONDS = 1.0


def main() -> None:
    """Serve until the socket is closed."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    settings = Settings()
    os.nice(NICENESS)
    # A signal to the whole group is the scaler's: it closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    instance = f"{settings.instance}/{NAME}"
    logs.configure(SERVICE, settings.log_level, instance=instance)
    tracing.start(SERVICE, instance)
    collect_seldom()
    switch_often()
    asyncio.run(serve(settings, connection))
    tracing.stop(LAST_SPANS_SECONDS)
    sys.stdout.flush()
    # Not `sys.exit`, which would wait for a decision on a thread.
    os._exit(0)


main()
