"""A reading without claims: splits to segments, the segments of a flow to items, items to rows."""
