"""The edge-agent with frequent heartbeats, also by HTTP: a script in place of `python -m clusterra_edge_agent`."""

from clusterra_edge_agent.app import main
from clusterra_edge_agent.heartbeat import heartbeat, http_fallback

QUICK = (
    # Long enough that an agent on a busy machine reaches a NATS that is there.
    (http_fallback, "FALLBACK_AFTER_SECONDS", 2.0),
    (http_fallback, "EVERY_SECONDS", 0.1),
    (http_fallback, "LIMIT_SECONDS", 0.1),
    (http_fallback, "HEARTBEAT_SECONDS", 0.5),
    (heartbeat, "HEARTBEAT_SECONDS", 0.5),
)

if __name__ == "__main__":
    for module, name, seconds in QUICK:
        setattr(module, name, seconds)
    main()
