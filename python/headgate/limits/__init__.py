"""How many, how fast, how often: what whoever starts work can share. Each stands alone."""
