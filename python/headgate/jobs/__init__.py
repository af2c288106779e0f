"""The functions for durable jobs, and the display of a running job."""
