"""Reads records from record batches and older message sets. `decoders.records` interprets the records."""
