"""The events service with announcements that live shortly: a script in place of `python -m clusterra_events`."""

from clusterra_events.app import main
from clusterra_runtime.nats import versions

QUICK = {"RENEW_SECONDS": 0.2, "LIFE_SECONDS": 3}

if __name__ == "__main__":
    for name, seconds in QUICK.items():
        setattr(versions, name, seconds)
    main()
