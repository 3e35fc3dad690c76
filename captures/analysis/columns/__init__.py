"""The tables of views: a row for each thing, sortable by each column; the same for screens and commands."""
