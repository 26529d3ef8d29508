"""A worker of the real agent: it only listens on the port of the slurmd whose arguments it gets."""

import re
import socket
import sys
import threading


def main() -> None:
    port = re.search(r"\bPort=(\d+)", " ".join(sys.argv))
    assert port is not None, sys.argv
    with socket.create_server(("127.0.0.1", int(port[1]))):
        threading.Event().wait()


if __name__ == "__main__":
    main()
