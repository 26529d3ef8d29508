"""`clusterra`: the command line of Clusterra's users. The SDK (`clusterra`) speaks with the gateway."""
