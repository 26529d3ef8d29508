"""The control loop: from the desired state to the workers."""
