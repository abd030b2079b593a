"""Who is served next, who waits and who is refused, request by request."""
