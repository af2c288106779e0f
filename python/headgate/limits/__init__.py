"""Concurrency limits, rate limits and retry policies that tasks share. Each can be used alone."""
