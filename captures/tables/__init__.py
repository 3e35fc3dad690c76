"""Exchanges as tables: `schema` defines them, `rows` makes their rows, `parquet` writes them."""
