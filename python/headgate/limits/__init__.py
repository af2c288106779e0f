"""How many, how fast, how often: limits that tasks share. Each can be used alone."""
