"""The one exception of the harness: a sentence that says what is wrong and what to do about it."""


class HarnessError(Exception):
    """Something outside the tests is missing or broken: a tool, a privilege, a process that died."""
