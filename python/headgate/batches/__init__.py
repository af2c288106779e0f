"""Tables through the engine, without a job: record batches in, record batches out."""
