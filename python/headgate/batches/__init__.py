"""Makes requests for the rows of tables, without a job, and returns results as record batches."""
