"""Engines without GPUs: a vLLM server as a discrete-event model, over HTTP, and as a fleet.

The replica engine is pure: it sees no clock and draws nothing at random. `engine_sim` paces one with the real clock
behind vLLM's HTTP API; `fleet_sim` paces many behind one port for pods that have no network.
"""
