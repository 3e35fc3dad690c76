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
    from click.shell_completion import get_completion_class

    from kproxy.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 (the choices are click's own shells)
    script = kind(main, {}, "kproxy", "_KPROXY_COMPLETE")
    click.echo(script.source_template % script.source_vars())
