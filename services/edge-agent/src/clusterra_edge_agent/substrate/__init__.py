"""What all substrates share: their port, worker records, leadership, change signals."""
