"""Accounts and associations in slurmdbd: who may have jobs in which, and who may submit none."""
