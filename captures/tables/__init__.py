"""Exchanges as tables: `schema` says what they hold, `rows` makes their rows, `parquet` writes them."""
