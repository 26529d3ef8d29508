"""The spool (store and forward): submits that wait on this machine for the network, each of which makes one job."""
