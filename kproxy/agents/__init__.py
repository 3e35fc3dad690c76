"""Answers to the questions of an agent about captures: `kproxy mcp` (docs/agents.md).

`answers` finds them with the library and bounds their size, `server` speaks the Model Context Protocol.
"""
