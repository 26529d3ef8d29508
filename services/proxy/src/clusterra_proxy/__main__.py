"""`python -m clusterra_proxy`."""

from clusterra_proxy.app import main

if __name__ == "__main__":
    main()
