"""Maps people to the users of a site: names, uids and groups that Clusterra did not allocate."""
