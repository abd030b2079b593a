"""Read: watch caches and lists, and the views that the planner gets of their objects."""
