"""The controller: what starts, wakes, paces, reports and stops the planner loop. It decides nothing.

Everything with a clock, a thread, a signal or a socket of the operator process is here, so that the packages below
stay functions of their arguments.
"""
