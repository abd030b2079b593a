"""The command line.

A command's flags are in `<command>_command.py`, and the code that it runs is in `<command>_run.py`. A command imports
that code, and the libraries it needs, only when it is called, so `forebay --help` does not wait for them.
"""
