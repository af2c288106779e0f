"""Many tasks, few at once: plain Python on asyncio, beside the engine and without it."""
