"""Measures how well limits are kept, and the cost of that: a file for each question."""
