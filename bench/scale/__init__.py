"""The operator beside a large fleet: what a tick, a start and its memory cost at each size."""
