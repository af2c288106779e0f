"""Measures the cost of HTTP requests for callers in threads and in an event loop."""
