"""The programs of Kubernetes and of its monitoring: built from Go modules, or taken out of Debian packages."""
