"""`kproxy spark`: what runs on Spark."""

from __future__ import annotations

import click

from kproxy.cli import spark_report


@click.group()
def command() -> None:
    """Work on captures that outgrow one machine, by Spark."""


command.add_command(spark_report.command)
