"""Run: the commands that start long-running processes."""
