"""Reads without claims: splits become segments, the segments of a flow become items, items become rows."""
