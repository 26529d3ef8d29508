"""The central side in the lab's Kubernetes: the dev overlay's own Deployments, with images built on this machine."""
