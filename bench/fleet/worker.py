"""`worker.py OWNER slurmd ...`: a worker of the real agent. It only listens on the port of the slurmd that it replaces.

Workers outlive their agent, so it ends with the process OWNER.
"""

import os
import re
import select
import socket
import sys


def main() -> None:
    port = re.search(r"\bPort=(\d+)", " ".join(sys.argv))
    assert port is not None, sys.argv
    with socket.create_server(("127.0.0.1", int(port[1]))):
        select.select([os.pidfd_open(int(sys.argv[1]))], [], [])


if __name__ == "__main__":
    main()
