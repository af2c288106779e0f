"""The durable job, from Python: the faces of the engine, and what a job shows."""
