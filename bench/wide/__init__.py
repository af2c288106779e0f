"""Measures the cost of lists of many hosts."""
