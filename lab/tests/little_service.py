"""A minimal service for tests of the lab: a health port, an orderly end, and a worker that outlives it."""

import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()


if os.environ.get("FAIL"):
    sys.exit("cannot open the door")
if os.environ.get("WORKER"):
    worker = subprocess.Popen(["sleep", "600"], start_new_session=True)
    print(f"worker {worker.pid}", flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print(f"hello from {os.environ.get('COLOUR', 'nobody')}", flush=True)
HTTPServer(("127.0.0.1", int(os.environ["CLUSTERRA_HEALTH_PORT"])), Health).serve_forever()
