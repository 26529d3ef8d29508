"""Workers as pods of Deployments and NodeSets."""
