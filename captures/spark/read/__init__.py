"""The stages: splits become parcels of flows, parcels become items, items become rows."""
