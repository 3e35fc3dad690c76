"""Commands for a running proxy: one table of actions, served by the control socket and over HTTP."""
