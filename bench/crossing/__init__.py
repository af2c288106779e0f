"""What a call from a thread into an event loop costs."""
