"""Direct: scrapes the engines."""
