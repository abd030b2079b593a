"""Client: the connection to the API server, and the lease that decides which operator writes."""
