"""What fields and their values mean, in our own words: for whoever reads a message without the protocol in mind.

The rows are data, a module for each kind of message; `table` finds them, `errors` says what to do about an error,
`remarks` says what takes several fields, or request and response, to see. None of it is in the JSON of a body.
"""
