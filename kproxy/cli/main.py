"""The command `kproxy`, which imports a subcommand when it is called.

Nothing here imports more than click, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import click

from kproxy import __version__
from kproxy.cli import commands, settings
from kproxy.cli.exits import OUTPUT_ERRORS, Exit, Failure, say

UNUSABLE = frozenset({errno.EROFS, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""Errors of a place that the user or the environment has named and that cannot be used."""

LONGEST_LINE = 500
"""Maximum number of characters of a line of an error message; longer lines are shortened."""


class LazyGroup(click.Group, settings.LazyMarker):
    """A click group that imports a subcommand when it is called; listing the subcommands imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(commands.COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's signature)
        entry = commands.COMMANDS.get(cmd_name)
        return None if entry is None else settings.with_globals(commands.load(entry.target))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in commands.COMMANDS:
            near = settings.nearest(name, commands.COMMANDS)
            ctx.fail(f"no such command {name!r}" + (f"; did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's)
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in commands.COMMANDS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs a command line; in standalone mode every outcome is an exit code of `Exit`."""
        name = prog_name or "kproxy"
        settings.reset()
        if not standalone_mode:
            return super().main(args, name, complete_var, standalone_mode=False, **extra)
        sys.exit(self._run(args, name, complete_var, extra))

    def _run(self, args: Sequence[str] | None, name: str, complete_var: str | None, extra: dict[str, Any]) -> int:
        if sys.stdout is None:  # standard output was closed before this process started
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        try:
            self._main_shell_completion(extra, name, complete_var)
            with self.make_context(name, list(sys.argv[1:] if args is None else args), **extra) as ctx:
                self.invoke(ctx)
            sys.stdout.flush()
        except click.exceptions.Exit as end:
            return end.exit_code
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help() if error.ctx is not None else error.format_message(), err=True)
            return Exit.USAGE
        except click.UsageError as error:
            _show(error, Exit.USAGE)
            return Exit.USAGE
        except click.FileError as error:
            _show(error, Exit.INPUT)
            return Exit.INPUT
        except click.ClickException as error:
            _show(error, error.exit_code)
            return error.exit_code
        except (KeyboardInterrupt, EOFError, click.Abort):
            return Exit.INTERRUPTED
        except BrokenPipeError as error:
            # EIO: the terminal is gone, so errors cannot be printed either
            _drop(sys.stdout, *([sys.stderr] if error.errno == errno.EIO else []))
            return Exit.PIPE
        except PermissionError as error:
            _show(Failure(_os_error(error)), Exit.PERMISSION)
            return Exit.PERMISSION
        except OSError as error:
            if error.errno in UNUSABLE:
                _show(Failure(_os_error(error)), Exit.PERMISSION)
                return Exit.PERMISSION
            if error.errno not in OUTPUT_ERRORS:
                return _unexpected(error)
            _drop(sys.stdout)
            # the system's own text, because an error from a library may have any text
            _show(Failure(f"{error.filename or 'the output'}: {os.strerror(error.errno)}"), Exit.USAGE)
            return Exit.USAGE
        except Exception as error:  # noqa: BLE001 (the last line of defence: everything else is a bug of kproxy)
            return _unexpected(error)
        return Exit.OK


def _show(error: click.ClickException, code: int) -> None:
    if settings.current().json:
        import json

        say(json.dumps({"error": error.format_message(), "exit": int(code)}))
        return
    # an error in a filter has several lines, with a mark under the position
    lines = error.format_message().split("\n") if isinstance(error, click.UsageError) else [error.format_message()]
    text, hint = "\n".join(map(_harmless, lines)), ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"{chr(10) if len(lines) > 1 else ' '}({error.ctx.command_path} --help tells more)"
    say(f"kproxy: {text}{hint}")


def _harmless(line: str) -> str:
    """A line that is safe for the terminal. The escaping module is imported only if the line needs it."""
    if line.isprintable() and len(line) <= LONGEST_LINE:
        return line
    from kproxy.decoders.escaping import message

    return message(line)


def _os_error(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)


def _drop(*streams: TextIO) -> None:
    """Redirects streams to /dev/null, so that flushing their buffers at exit cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in streams:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(null, stream.fileno())
    finally:
        os.close(null)


def _unexpected(error: Exception) -> int:
    """Prints an error in one line: exit 3 for input that a command could not read, else the code for a bug."""
    if type(error).__module__ == "kproxy.captures.errors":
        _show(Failure(str(error)), Exit.INPUT)
        return Exit.INPUT
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = "" if where is None else f" at {where.tb_frame.f_globals.get('__name__')}:{where.tb_lineno}"
    message = f"internal error: {type(error).__name__}: {error}{place} (-v shows the traceback)"
    _show(Failure(f"{message}; please report it{_where_to_report()}"), Exit.BUG)
    if settings.current().verbose:
        import traceback

        traceback.print_exception(error)
    return Exit.BUG


def _where_to_report() -> str:
    """The words " at URL" with the address of the project's issues; "" if kproxy runs without being installed."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        urls = metadata("kafka-kproxy").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    return "".join(f" at {url}" for label, _, url in (one.partition(", ") for one in urls) if label == "Issues")


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group("kproxy", cls=LazyGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(__version__, prog_name="kproxy")
@click.pass_context
def main(ctx: click.Context) -> None:
    """See every Kafka message that passes: live through a proxy, or in a capture."""
    settings.prepare(ctx)
    if ctx.invoked_subcommand is None:
        from kproxy.cli.choosing import choose

        ctx.exit(choose())


settings.with_globals(main)
