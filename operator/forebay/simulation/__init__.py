"""Simulation of engines, clusters and scaling policies, so that Forebay can be tested and compared without GPUs.

- `engine`: one vLLM engine as a discrete-event model. It is pure: it reads no clock and draws no random numbers.
- `vllm_server`: engine-sim, which paces that engine with the real clock behind vLLM's HTTP API.
- `kwok_fleet`: fleet-sim, which paces many engines behind one port, for pods that have no network.
- `traffic`: recorded and synthetic request traces.
- `cluster`: pods, nodes, scrapes and the gateway in virtual time, driven by the planner or by another policy.
- `fluid`: the same cluster with traffic as a flow instead of single requests, for weeks of traffic.
- `peers`: the published scaling rules of other systems.
- `compare`: one service under several policies, and the figures they are compared by.
"""
