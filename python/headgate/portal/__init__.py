"""Calls from threads into an event loop: plain Python on asyncio, beside the engine and without it."""
