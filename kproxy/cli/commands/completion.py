from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  kproxy completion bash > ~/.local/share/bash-completion/completions/kproxy
    zsh:   kproxy completion zsh > a directory of $fpath, as _kproxy
    fish:  kproxy completion fish > ~/.config/fish/completions/kproxy.fish
    """  # noqa: D301 (\b keeps click from joining the lines)
    click.echo(script(shell))


def script(shell: str) -> str:
    """The completion script of "bash", "zsh" or "fish"."""
    from click.shell_completion import get_completion_class

    from kproxy.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 (these are click's own shells)
    completion = kind(main, {}, "kproxy", "_KPROXY_COMPLETE")
    return completion.source_template % completion.source_vars()
