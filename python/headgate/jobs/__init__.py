"""The durable job, from Python: its functions, and what a job shows."""
