"""Claims: exchanges that a split decodes by itself; only their headers are shuffled, to confirm them."""
