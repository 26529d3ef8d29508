"""The events service with announcements that live shortly: a script in place of `python -m clusterra_events`."""

from clusterra_events.app import main
from clusterra_runtime.nats import versions

if __name__ == "__main__":
    versions.RENEW_SECONDS = 0.2
    versions.LIFE_SECONDS = 3
    main()
