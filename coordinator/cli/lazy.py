"""Commands that are imported when somebody uses them, so that `--help` and a light command start at once."""

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup


class LazyCommand(TyperCommand):
    """Stands for a function of this package, named as "module:function", which `loaded` turns into the command.

    The help text is given here, so that a listing need not import the function.
    """

    def __init__(self, target: str, help_text: str, epilog: str | None = None) -> None:
        self._module, _, name = target.partition(":")
        super().__init__(name, help=help_text, epilog=epilog)

    @cached_property
    def loaded(self) -> TyperCommand:
        """The command itself, with its arguments and options."""
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        function = getattr(import_module(f"{__package__}.{self._module}"), str(self.name))
        app.command(self.name, help=self.help, epilog=self.epilog)(function)
        command = typer.main.get_command(app)
        assert isinstance(command, TyperCommand)  # noqa: S101 - one function without sub-commands
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Loads the command, because parsing, running and completing all start here."""
        return self.loaded.make_context(*args, **kwargs)


def lazy_app(name: str, help_text: str, epilog: str, commands: Sequence[LazyCommand | TyperGroup]) -> typer.Typer:
    """The command line that has these commands, in this order."""

    class Commands(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**{**settings, "commands": commands})

    app = typer.Typer(
        name=name,
        cls=Commands,
        help=help_text,
        epilog=epilog,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(lambda: None)  # the command line as a whole has no options of its own
    return app


def lazy_group(name: str, help_text: str, commands: list[LazyCommand]) -> TyperGroup:
    """A command with sub-commands."""
    return TyperGroup(name=name, help=help_text, commands=commands, no_args_is_help=True, rich_markup_mode=None)
