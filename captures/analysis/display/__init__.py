"""Formats the views of captures.analysis as lines of text: a heading for each thing, with indented details."""
