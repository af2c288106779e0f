"""Measures the cost of a bounded task: one file for each `harness.findings.Question`."""
