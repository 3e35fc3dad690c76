"""What a running proxy can be told from outside: one table of actions, served by the control socket and over HTTP."""
