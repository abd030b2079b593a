"""Runtime: what every long-running Forebay process needs, whatever it does: HTTP endpoints, logs, shutdown.

Nothing here knows the planner loop, kopf or leader election. Those belong to the operator (`controller`).
"""
