"""Measures the promises and the cost of durability: one file for each `harness.findings.Question`."""
