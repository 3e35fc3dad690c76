"""Exchanges that a split is sure of: they are decoded where they lie, and only headers are shuffled to prove them."""
