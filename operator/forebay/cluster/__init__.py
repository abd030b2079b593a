"""Cluster: reads Kubernetes objects into a World and writes the actions, statuses and Events of a Plan."""
