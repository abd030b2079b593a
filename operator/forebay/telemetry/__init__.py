"""Telemetry: what the engines say about themselves, read into `EngineSample`s. It reads facts and decides nothing."""
