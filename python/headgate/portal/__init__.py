"""Calls from threads into an event loop, in plain Python on asyncio, without the engine."""
