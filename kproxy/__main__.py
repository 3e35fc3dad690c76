"""`python -m kproxy` is the command `kproxy`."""

from kproxy.cli.main import main

main(prog_name="kproxy")
