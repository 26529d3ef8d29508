"""Publishers of events, everything that receives them, and the faults that both meet."""
