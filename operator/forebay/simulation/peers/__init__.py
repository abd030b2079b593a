"""The scaling rules of other systems, reimplemented from their published sources, to run on the same traces as Forebay.

A peer sees the metrics that a scrape delivers and returns a replica count. Each module names the document or source
file that its rule was read from. The documented defaults are the defaults of the class, so the arguments show how a
tuned peer differs from them.
"""
