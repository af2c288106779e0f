"""Clients that make single or many requests, from threads and from event loops, with one engine."""
