"""Runs `clusterra` as `python -m clusterra_cli`."""

from clusterra_cli.app import main

if __name__ == "__main__":
    main()
