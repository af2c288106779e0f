"""What one HTTP request after another costs callers in threads, and what requests in flight cost an event loop."""
