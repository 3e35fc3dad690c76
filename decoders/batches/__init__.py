"""Record batches and the older message sets: bytes to records. What the records mean is in `decoders.records`."""
