"""Kubernetes on this machine: its programs, a control plane, real and fake nodes, and a customer's edge."""
