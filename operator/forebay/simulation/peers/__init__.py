"""The scaling rules of other systems, written anew from what they publish, so that all run on one trace in one run.

A peer sees what a scrape gives and answers with a replica count. Each names the document or source file that its rule
was read from, and takes its documented defaults as defaults, so that a tuned one differs in what is written where it is
made.
"""
