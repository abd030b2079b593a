"""The command line. Each command imports what it runs only when it runs, so that none waits for another's libraries."""
