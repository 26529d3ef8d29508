"""The edge-agent with frequent heartbeats, also by HTTP: a script in place of `python -m clusterra_edge_agent`."""

from clusterra_edge_agent.app import main
from clusterra_edge_agent.heartbeat import heartbeat, http_fallback

FALLBACK_AFTER_SECONDS = 2.0
"""Long enough that an agent on a busy machine reaches a NATS that is there."""
PAUSE_SECONDS = 0.1

if __name__ == "__main__":
    http_fallback.FALLBACK_AFTER_SECONDS = FALLBACK_AFTER_SECONDS
    http_fallback.EVERY_SECONDS = PAUSE_SECONDS
    http_fallback.HEARTBEAT_SECONDS = heartbeat.HEARTBEAT_SECONDS = 5 * PAUSE_SECONDS
    http_fallback.LIMIT_SECONDS = PAUSE_SECONDS
    main()
