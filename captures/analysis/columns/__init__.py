"""The tables of views: one line a thing, sortable by each column, the same for screens and commands."""
