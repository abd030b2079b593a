"""The operator process: it starts, wakes, times, reports and stops the planner loop, and decides nothing itself.

All clocks, threads, signals and sockets of the process are used here, so the packages below stay functions of their
arguments. What every process needs (HTTP endpoints, logs, shutdown) is in `runtime`.
"""
