"""Requests one by one and by the thousand, from threads and from event loops, through one engine."""
