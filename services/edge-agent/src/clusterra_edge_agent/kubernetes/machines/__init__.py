"""The machines that workers run on: nodes, NodeClaims, prices."""
