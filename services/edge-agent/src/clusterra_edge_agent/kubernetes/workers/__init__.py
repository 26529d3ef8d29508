"""The workers: pods of Deployments or NodeSets."""
