"""Reading what streams store without a consumer, and how full they are."""
