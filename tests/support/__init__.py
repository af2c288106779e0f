"""Helpers for several tests."""
