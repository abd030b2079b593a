"""Telemetry: reads the metrics of engines into `EngineSample`s. It decides nothing."""
