"""Lets `python -m kproxy` run the command `kproxy`."""

from kproxy.cli.main import main

main(prog_name="kproxy")
