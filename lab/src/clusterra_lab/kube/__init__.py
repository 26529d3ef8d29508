"""Kubernetes on this machine: control plane, real and fake nodes, a customer's edge."""
