"""What the engine promises inside: one file for each question, all of the shape of `harness.findings.Question`."""
