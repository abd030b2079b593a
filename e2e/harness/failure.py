"""The harness's only exception; its message says what is wrong and what to do."""


class HarnessError(Exception):
    """Something outside the tests is missing or broken: a tool, a privilege, a process that died."""
