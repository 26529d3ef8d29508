"""The ledger: what each job and each worker cost, from the facts in events."""
