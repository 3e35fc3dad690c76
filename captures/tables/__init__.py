"""Tables of exchanges: `schema` defines them, `rows` makes their rows, `parquet` writes them."""
