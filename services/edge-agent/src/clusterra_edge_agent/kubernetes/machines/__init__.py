"""The machines under the workers: nodes, NodeClaims, prices."""
