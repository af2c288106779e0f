"""Bounded concurrency for many tasks, in plain Python on asyncio, without the engine."""
