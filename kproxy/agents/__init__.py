"""Answers an agent's questions about captures: `kproxy mcp` (docs/agents.md).

`answers` finds the answers with the library and bounds their size; `server` speaks the Model Context Protocol.
"""
