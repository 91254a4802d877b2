"""Start and end of commands. Each command is imported on use, so that `--help` and small commands start fast, and each
ends with one of `EXIT_CODES`."""

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup


class Exit(IntEnum):
    """The exit codes; `EXIT_CODES` describes them."""

    DONE = 0
    NOT_SO = 1
    INPUT = 2
    FENCED = 3
    INTERRUPTED = 130
    UNREAD = 141


EXIT_CODES: Mapping[Exit, str] = {
    Exit.DONE: "ended as requested; so do `run`, `top` and --watch after Ctrl-C",
    Exit.NOT_SO: "not so: a check has failed, a plan differs, something is missing yet, or an order is not in effect"
    " within --wait; or an error in Bellwether, or a full disk",
    Exit.INPUT: "bad input or configuration: options, settings, an unknown group, topic or order, silent brokers,"
    " missing ACLs, bytes that do not decode; an order or a plan that is refused",
    Exit.FENCED: "fenced, another process runs with this group.instance.id; do not restart this one while it does",
    Exit.INTERRUPTED: "ended by Ctrl-C",
    Exit.UNREAD: "the reader of the output has ended, as behind `| head`",
}
EPILOG = "Exit codes: " + "; ".join(f"{int(code)} {meaning}" for code, meaning in EXIT_CODES.items()) + "."
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def with_exit_codes(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command so that Ctrl-C and a closed output end it with an exit code instead of a traceback."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            discard_output()
            raise typer.Exit(Exit.UNREAD) from None
        except KeyboardInterrupt:
            raise typer.Exit(Exit.INTERRUPTED) from None

    return run


def discard_output() -> None:
    """Leads standard output nowhere, because the interpreter flushes it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class LazyCommand(TyperCommand):
    """A placeholder for a function of this package, named "module:function", or for an entry of the module's table
    COMMANDS. `loaded` imports it as a command.

    The help text is given here, so that a listing need not import the function. `removed` says of options of earlier
    releases what to write.
    """

    def __init__(
        self, target: str, help_text: str, epilog: str | None = None, removed: Mapping[str, str] | None = None
    ) -> None:
        self._module, _, name = target.partition(":")
        self.removed = removed or {}
        super().__init__(name, help=help_text, epilog=epilog)

    @cached_property
    def loaded(self) -> TyperCommand:
        """The command itself, with its arguments and options."""
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        module, name = import_module(f"{__package__}.{self._module}"), str(self.name)
        function = getattr(module, "COMMANDS", {}).get(name) or getattr(module, name)
        app.command(self.name, help=self.help, epilog=self.epilog)(with_exit_codes(function))
        command = typer.main.get_command(app)
        assert isinstance(command, TyperCommand)  # noqa: S101 - one function without sub-commands
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Loads the command. Parsing, running and completing all start here."""
        gone = next((name for word in args if (name := word.partition("=")[0]) in self.removed), None)
        if gone is not None and parent is not None:
            parent.fail(f"{gone} is gone; {self.removed[gone]}.")
        return self.loaded.make_context(info_name, args, parent, **extra)


def lazy_app(
    name: str,
    help_text: str,
    sections: Mapping[str, Sequence[LazyCommand | TyperGroup]],
    removed: Mapping[str, str],
    moved: Mapping[str, tuple[str, LazyCommand]],
) -> typer.Typer:
    """Returns a command line with these commands, listed in these sections and in this order. Of commands of earlier
    releases, `removed` says what to write; `moved` has the group and the command of those that still run by their old
    name, with a sentence, because hooks and probes of applications call them."""

    class Commands(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            commands = [command for section in sections.values() for command in section]
            super().__init__(**{**settings, "commands": commands})

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in removed:
                ctx.fail(f"`{name} {cmd_name}` is gone; write `{removed[cmd_name]}`.")
            if cmd_name not in moved:
                return super().get_command(ctx, cmd_name)
            group, command = moved[cmd_name]
            if not ctx.resilient_parsing:  # which completes a line and runs nothing
                now = f"{name} {group} {cmd_name}"
                sentence = f"Write `{now}`: `{name} {cmd_name}` goes with the next release."
                import_module(f"{__package__}.output").echo(sentence, err=True)
            return command

        def format_commands(self, _ctx: Any, formatter: Any) -> None:
            for title, commands in sections.items():
                with formatter.section(title):
                    formatter.write_dl([(command.name, _first_sentence(command.help or "")) for command in commands])

        def format_epilog(self, _ctx: Any, formatter: Any) -> None:
            with formatter.section("Exit codes"):
                formatter.write_dl([(str(int(code)), meaning) for code, meaning in EXIT_CODES.items()])

    app = typer.Typer(
        name=name,
        cls=Commands,
        help=help_text,
        context_settings=HELP_OPTIONS,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_whole)
    return app


def lazy_group(name: str, help_text: str, commands: list[LazyCommand]) -> TyperGroup:
    """Returns a command with sub-commands."""
    return TyperGroup(name=name, help=help_text, commands=commands, no_args_is_help=True, rich_markup_mode=None)


def _whole(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=lambda given: _version(asked=given)
        ),
    ] = False,
) -> None:
    """The options of the command line as a whole."""


def _version(*, asked: bool) -> None:
    if asked:
        offline = import_module(f"{__package__}.offline")
        import_module(f"{__package__}.output").echo(f"bellwether {offline.installed_version()}")
        raise typer.Exit


def _first_sentence(text: str) -> str:
    line = text.split("\n", maxsplit=1)[0]
    return line if ". " not in line else f"{line.split('. ')[0]}."
