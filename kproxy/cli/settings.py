"""The global options, which every command takes before or after its name, and the sources of all options' values.

The first source that has a value wins: flag, `-X key=value`, environment `KPROXY_*`, the chosen profile, the top level
of the configuration file, the option's default. A key is an option's long name ("listen", "port-base"); in a table
named after a command it applies to that command only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from kproxy.cli.exits import Exit, Failure, say

PREFIX = "KPROXY_"
CLUSTERS = "clusters"
OTHER_TABLES = ("profile", "keymap", "filters", CLUSTERS)
"""Tables of the configuration file that are not commands: profiles, the UI's keys, named filters, clusters."""


@dataclass(slots=True)
class Settings:
    """The values of the global options; see `current`."""

    config: Path | None = None
    profile: str | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    verbose: int = 0
    quiet: bool = False
    log_file: Path | None = None
    log_format: str = "text"
    color: str = "auto"
    json: bool = False
    file: Mapping[str, Any] = field(default_factory=dict)
    """The parsed configuration file; {} if there is none."""


_settings = Settings()


def current() -> Settings:
    """The settings of this process's command line."""
    return _settings


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that `word` is probably a misspelling of; None if none is similar."""
    import difflib

    matches = difflib.get_close_matches(word, list(names), n=1, cutoff=0.6)
    return matches[0] if matches else None


def config_path() -> Path:
    """Path of the configuration file: `--config`, else in the user's configuration directory."""
    if _settings.config is not None:
        return _settings.config
    import platformdirs

    return Path(platformdirs.user_config_dir("kproxy", appauthor=False)) / "config.toml"


# --- the options -----------------------------------------------------------------------------------------------------


def _store(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if (
            ctx.resilient_parsing
            or value is None
            or value == ()
            or value is False
            or (value == 0 and name == "verbose")
        ):
            return value
        if name == "overrides":
            _settings.overrides.update(_pairs(value))
        else:
            setattr(_settings, name, value)
        if name == "color":
            ctx.color = {"always": True, "never": False}.get(value)
        return value

    return callback


def _pairs(words: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{word!r} is not key=value")
        pairs[key] = value
    return pairs


def _options() -> list[click.Option]:
    path = click.Path(path_type=Path)
    return [
        click.Option(["--config", "config"], type=path, metavar="FILE", help="Configuration file.",
                     expose_value=False, is_eager=True, callback=_store("config")),
        click.Option(["--profile", "profile"], metavar="NAME", help="Profile of the configuration file.",
                     expose_value=False, is_eager=True, callback=_store("profile")),
        click.Option(["-X", "overrides"], multiple=True, metavar="KEY=VALUE",
                     help="Set any option by its name (command.option, or option).",
                     expose_value=False, is_eager=True, callback=_store("overrides")),
        click.Option(["-v", "--verbose", "verbose"], count=True, help="Print more messages (twice: all).",
                     expose_value=False, is_eager=True, callback=_store("verbose")),
        click.Option(["-q", "--quiet", "quiet"], is_flag=True, help="Print errors only, no warnings.",
                     expose_value=False, is_eager=True, callback=_store("quiet")),
        click.Option(["--log-file", "log_file"], type=path, metavar="FILE", help="Write the log to this file.",
                     expose_value=False, is_eager=True, callback=_store("log_file")),
        click.Option(["--log-format", "log_format"], type=click.Choice(["text", "json"]), help="Format of the log.",
                     expose_value=False, is_eager=True, callback=_store("log_format")),
        click.Option(["--color", "color"], type=click.Choice(["auto", "always", "never"]), help="Colour the output.",
                     expose_value=False, is_eager=True, callback=_store("color")),
        click.Option(["--json", "json"], is_flag=True, help="Write JSON to standard output, and errors as JSON too.",
                     expose_value=False, is_eager=True, callback=_store("json")),
    ]  # fmt: skip


GLOBAL_OPTIONS: tuple[str, ...] = tuple(option.opts[-1] for option in _options())


def with_globals(command: click.Command) -> click.Command:
    """Adds the global options to a command, hidden because the top level shows them.

    If the command has an option of the same name (`--json`), this option also sets the global one.
    """
    own = {name: parameter for parameter in command.params for name in parameter.opts}
    for option in _options():
        same = [own[name] for name in option.opts if name in own]
        if not same:
            option.hidden = not isinstance(command, LazyMarker)
            command.params.append(option)
        elif same[0].callback is None and same[0].name == option.name:
            same[0].callback = option.callback
            same[0].is_eager = True
    if isinstance(command, click.Group) and not isinstance(command, LazyMarker):
        for sub in command.commands.values():
            with_globals(sub)
    return command


class LazyMarker:
    """Marks the top-level group: it shows the global options, and its commands are loaded one by one."""


# --- the sources of values -------------------------------------------------------------------------------------------


def reset() -> None:
    """Discards the settings of the previous command line. Tests run several command lines in one process."""
    global _settings  # noqa: PLW0603 (one command line a process; tests run several)
    _settings = Settings()


def prepare(ctx: click.Context) -> None:
    """Gives the called command its defaults; looking up the first one reads the configuration and starts the log."""
    name = ctx.invoked_subcommand
    if name is None or not isinstance(ctx.command, click.Group):
        return
    command = ctx.command.get_command(ctx, name)
    if command is not None:
        ctx.default_map = {name: _Defaults(name, command)}


class _Defaults(dict[str, Any]):
    """A command's `default_map` for click: looks values up lazily, once the global options are known.

    The commands of a group use the group's table in the configuration.
    """

    def __init__(self, name: str, command: click.Command, keys: set[str] | None = None) -> None:
        super().__init__()
        self._options = {option.name: option for option in command.params if option.name}
        self._keys = option_names([command]) if keys is None else keys
        self._inside = command.commands if isinstance(command, click.Group) else {}
        self._name = name
        self._sources: list[tuple[str, Mapping[str, Any]]] | None = None

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __getitem__(self, key: str) -> Any:
        return self._find(key)

    def get(self, key: str, default: Any = None) -> Any:
        if key in self._inside:
            return _Defaults(self._name, self._inside[key], self._keys)
        found = self._find(key)
        return default if found is None else found

    def _find(self, key: object) -> Any:
        option = self._options.get(str(key))
        if option is None or option.is_eager or isinstance(option, click.Argument):
            return None
        if self._sources is None:
            read_sources()
            warn_unknown(self._name, self._keys)
            start_log()
            self._sources = sources(self._name)
        name = spelled(option)
        for _, source in self._sources:
            value = source.get(name)
            if value is not None:
                return _listed(option, value)
        return None


def _listed(option: click.Parameter, value: Any) -> Any:
    """A value in the form that click expects in a default map: text is split if the option takes several values."""
    several = isinstance(option, click.Option) and (option.multiple or option.nargs != 1)
    return option.type.split_envvar_value(value) if several and isinstance(value, str) else value


def typed(option: click.Option, value: Any) -> Any:
    """A value of the configuration, checked against the option's type. Raises click.BadParameter."""
    several = _listed(option, value)
    for one in several if isinstance(several, list | tuple) else (several,):
        option.type.convert(one, option, None)
    return several


def spelled(option: click.Parameter) -> str:
    """An option's key in the configuration: its long name without the dashes."""
    longest = max(option.opts, key=len)
    return longest.lstrip("-")


def sources(command: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The sources of a command's options, in order of precedence: (name, values by key)."""
    profile = _table(_settings.file, "profile", _settings.profile) if _settings.profile else {}
    prefix = f"{command}."
    own = {key.removeprefix(prefix): value for key, value in _settings.overrides.items() if key.startswith(prefix)}
    return [
        ("-X", own),
        ("-X", _settings.overrides),
        ("environment", _Environment(command)),
        (f"profile {_settings.profile}", _table(profile, command)),
        (f"profile {_settings.profile}", profile),
        ("configuration", _table(_settings.file, command)),
        ("configuration", _settings.file),
    ]


class _Environment(dict[str, Any]):
    """Values from environment variables: KPROXY_RUN_LISTEN takes precedence over KPROXY_LISTEN."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command

    def get(self, key: str, default: Any = None) -> Any:
        name = key.replace("-", "_").upper()
        mine = os.environ.get(f"{PREFIX}{self._command.upper()}_{name}")
        return mine if mine is not None else os.environ.get(PREFIX + name, default)


def _table(values: Mapping[str, Any], *names: str | None) -> Mapping[str, Any]:
    for name in names:
        inner = values.get(name) if name is not None else None
        if not isinstance(inner, dict):
            return {}
        values = inner
    return values


def table(name: str) -> Mapping[str, Any]:
    """A table of the chosen profile, else of the configuration's top level; {} if there is none."""
    profile = _table(_settings.file, "profile", _settings.profile) if _settings.profile else {}
    return _table(profile, name) or _table(_settings.file, name)


def read_sources() -> None:
    """Reads the configuration file, and from it the global options that no flag has set."""
    _settings.file = read_config(config_path())
    if _settings.profile is None:
        _settings.profile = os.environ.get(f"{PREFIX}PROFILE") or _settings.file.get("default-profile")
    if _settings.profile is not None and not _table(_settings.file, "profile", _settings.profile):
        known = _table(_settings.file, "profile")
        near = nearest(_settings.profile, known)
        raise Failure(
            f"no profile {_settings.profile!r} in {config_path()}" + (f"; did you mean {near}?" if near else ""),
            Exit.USAGE,
        )
    for name in ("color", "log-file", "log-format", "quiet", "verbose", "json"):
        attribute = name.replace("-", "_")
        if getattr(_settings, attribute) != getattr(Settings(), attribute):
            continue
        value = next((found for _, source in sources("") if (found := source.get(name)) is not None), None)
        if value is not None:
            setattr(_settings, attribute, _typed(name, value))


def _typed(name: str, value: Any) -> Any:
    """The value of a global option, parsed as click does. Raises click.BadParameter."""
    option = next(option for option in _options() if f"--{name}" in option.opts)
    kind: click.ParamType[Any] = click.INT if option.count else click.BOOL if option.is_flag else option.type
    return kind.convert(value, option, None)


def read_config(path: Path) -> dict[str, Any]:
    """The parsed file, {} if there is none. Raises Failure (exit 2) if it is not TOML."""
    try:
        text = path.read_bytes()
    except FileNotFoundError as error:
        if _settings.config is not None:
            raise Failure(f"{path}: no such configuration file", Exit.USAGE) from error
        return {}
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", Exit.USAGE) from error
    import tomllib

    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: not TOML: {error}", Exit.USAGE) from error


def option_names(commands: Iterable[click.Command]) -> set[str]:
    """All keys that a configuration may have for these commands."""
    names = {option.lstrip("-") for option in GLOBAL_OPTIONS} - {"X", "config", "profile"}
    for command in commands:
        names.update(spelled(option) for option in command.params if isinstance(option, click.Option))
        if isinstance(command, click.Group):
            names |= option_names(command.commands.values())
    return names - {"help"}


def warn_unknown(command: str, names: set[str]) -> None:
    """Warns on standard error of unknown keys in the configuration; raises Failure (exit 2) for unknown keys of -X."""
    from kproxy.cli.commands import COMMANDS, load

    loaded: dict[str, set[str]] = {command: names}

    def known(name: str) -> set[str]:
        if name not in loaded:
            loaded[name] = option_names([load(COMMANDS[name].target)])
        return loaded[name]

    wrong = unknown_keys({}, _settings.overrides, list(COMMANDS), known)
    if wrong:
        raise Failure("; ".join(wrong), Exit.USAGE)
    for line in unknown_keys(_settings.file, {}, list(COMMANDS), known):
        warn(line)


def unknown_keys(
    file: Mapping[str, Any], overrides: Mapping[str, str], commands: list[str], known: Callable[[str], set[str]]
) -> list[str]:
    """One line for each key of the configuration file or of `-X` that no command has, with the nearest name."""
    lines: list[str] = []

    def everything() -> set[str]:
        return option_names(()).union(*(known(name) for name in commands))

    def check(place: str, key: str, names: set[str]) -> None:
        if key not in names:
            near = nearest(key, names)
            lines.append(f"{place}: unknown key {key!r}" + (f"; did you mean {near}?" if near else ""))

    def table(place: str, values: Mapping[str, Any], others: Iterable[str]) -> None:
        for key, value in values.items():
            if key in others:
                continue
            if isinstance(value, dict) and key in commands:
                for inner in value:
                    check(f"{place} [{key}]", inner, known(key) | option_names(()))
            elif isinstance(value, dict):
                check(place, key, {*commands, *others})
            else:
                check(place, key, everything())

    table("configuration", file, (*OTHER_TABLES, "default-profile"))
    for name, values in _table(file, "profile").items():
        if isinstance(values, dict):
            table(f"profile {name}", values, (CLUSTERS,))
    for key in overrides:
        command, dot, option = key.partition(".")
        if dot and command not in commands:
            check("-X", command, set(commands))
        else:
            check("-X", option if dot else key, known(command) if dot else everything())
    return lines


# --- messages --------------------------------------------------------------------------------------------------------


def warn(message: str) -> None:
    """Prints a warning on standard error, unless `-q` is given."""
    from kproxy.decoders.escaping import message as harmless

    if not _settings.quiet:
        say(f"kproxy: warning: {harmless(message)}")


def start_log() -> None:
    """Starts logging to the file of --log-file, else with `-v` to standard error; without both, nothing is logged."""
    if _settings.log_file is None and not _settings.verbose:
        return
    import logging

    from kproxy.captures import private

    level = logging.DEBUG if _settings.verbose > 1 else logging.INFO
    try:
        if _settings.log_file is None:
            handler: logging.Handler = logging.StreamHandler(sys.stderr)
        else:
            private.log(Path(_settings.log_file)).close()  # creates or refuses the file before logging opens it
            handler = logging.FileHandler(_settings.log_file, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{_settings.log_file}: {error.strerror}", Exit.USAGE) from error
    form = (
        '{"time": "%(asctime)s", "level": "%(levelname)s", "logger": "%(name)s", "message": %(message_json)s}'
        if _settings.log_format == "json"
        else "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    handler.addFilter(_escape_message)
    if _settings.log_format == "json":
        handler.addFilter(_quote_message)
    handler.setFormatter(logging.Formatter(form))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _escape_message(record: Any) -> bool:
    from kproxy.decoders.escaping import message as harmless

    record.msg, record.args = harmless(record.getMessage()), None
    return True


def _quote_message(record: Any) -> bool:
    import json

    record.message_json = json.dumps(record.getMessage())
    return True
