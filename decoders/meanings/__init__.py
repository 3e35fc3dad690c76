"""The meanings of fields and values, for readers who do not know the protocol by heart.

The rows are data, in a module for each kind of message. `table` finds the row for a value, `errors` has advice for each
error code, and `remarks` explains facts that follow from several fields, or from request and response. The JSON of a
body contains none of these texts.
"""
