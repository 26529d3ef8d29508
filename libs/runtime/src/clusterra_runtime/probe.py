"""The healthcheck of a container: `python -m clusterra_runtime.probe` asks the service beside it whether it is ready.

It imports nothing but sockets, because an engine starts it every few seconds.
"""

import os
import socket
import sys

SECONDS = 4.0
"""The deadline for connecting, and for each read."""
_READABLE = 4096
"""Enough for the status line and a list of readiness conditions that are not met."""


def ready(port: int) -> tuple[bool, str]:
    """Ask `/readyz` on this machine; returns whether the service is ready, and its answer or why there is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
            connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            answer = b""
            while len(answer) < _READABLE and (received := connection.recv(_READABLE)):
                answer += received
    except OSError as error:
        return False, f"port {port}: {error}"
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b" ")[1:2] == [b"200"], body.decode(errors="replace")


def main() -> None:
    """Probe the port of `CLUSTERRA_HEALTH_PORT`; exits with 0 if the service is ready, else with 1."""
    is_ready, answer = ready(int(os.environ["CLUSTERRA_HEALTH_PORT"]))
    sys.stdout.write(f"{answer}\n")
    sys.exit(0 if is_ready else 1)


if __name__ == "__main__":
    main()
