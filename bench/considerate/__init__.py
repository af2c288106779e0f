"""How well limits are kept, and what keeping them costs: a file for each question."""
