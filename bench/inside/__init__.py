"""Measures the promises of the engine: one file for each `harness.findings.Question`."""
