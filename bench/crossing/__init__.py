"""Measures the cost of a call from a thread into an event loop."""
