"""The arguments and options of commands that give orders, and how they become an `OrderService`."""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import (
    WAIT_S_MAX,
    Bootstrap,
    Config,
    settings_without_group,
)
from bellwether_kafka.coordinator.cli.orders.write import OrderService
from bellwether_kafka.coordinator.cli.output import As, Output, echo, fail

NO_TOPIC = (
    'control_topic = "" means that nobody gives orders; name the topic that the process reads, there or with --topic.'
    " A process without one leaves all its groups at SIGUSR1."
)
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ItemName = Annotated[str, typer.Argument(help='TOPIC-PARTITION, TOPIC, a task such as 1_5, a subtopology, or "*".')]
Where = Annotated[str, typer.Argument(help="rack:NAME or member:ID, the id also in short.")]
Place = Annotated[str, typer.Argument(metavar="WHERE", help="member:ID.")]
Topic = Annotated[
    str | None,
    typer.Option(help="The control topic, else the file's, which is bellwether-control unless it says another."),
]
Reason = Annotated[str, typer.Option(help="Why; recorded with the order and shown in logs and causes.")]
For = Annotated[str, typer.Option("--for", help="How long the order stays in force, such as 30m, 12h or 7d.")]
ForOrUntilResume = Annotated[
    str | None,
    typer.Option("--for", help="How long the order stays in force, such as 30m, 12h or 7d; else until resume."),
]
GroupOrAll = Annotated[
    str | None, typer.Argument(help="The group id, of an application its application id.", show_default=False)
]
AllGroups = Annotated[
    bool, typer.Option("--all", help="All groups that live processes lead or are to lead, in place of one.")
]
FOLLOW_HELP = "Seconds to follow it until it is in effect; exits 1 if it is not by then."
Wait = Annotated[float, typer.Option(help=FOLLOW_HELP, min=0.0, max=WAIT_S_MAX)]
Force = Annotated[bool, typer.Option("--force", help="Save the order although no process could carry it out now.")]
Remove = Annotated[
    bool, typer.Option("--remove", help="It has been stopped for good: remove what is left of it from the group.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan that would follow, and order nothing.")]


@dataclass(frozen=True, slots=True)
class OrderTerms:
    """The terms of a placement order: its duration (such as "1d"), its reason, and the options of the command."""

    for_: str
    reason: str
    wait_s: float
    force: bool
    dry_run: bool

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments for `OrderService.give`."""
        return {"wait_s": self.wait_s, "force": self.force, "dry_run": self.dry_run}


def with_topic(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the control topic's options to a command, after its own. The command gets the resulting service as `to`. An
    error of the topic ends the process."""

    def options(
        bootstrap: Bootstrap = None, config: Config = None, topic: Topic = None, output: As = Output.TABLE
    ) -> OrderService:
        settings = settings_without_group(bootstrap, config)
        name = topic or settings.control_topic
        if not name:
            fail(NO_TOPIC)
        return OrderService(control.TopicChannel(settings.properties, name, _once()), output, bootstrap, config)

    def to_the_end(to: OrderService, **given: Any) -> None:
        # A command that waits for the group also waits for brokers: if a stop hook fails, nothing is evacuated.
        try:
            command(to=replace(to, retry_s=given.get("wait", 0.0)), **given)
        except control.ControlTopicError as error:
            fail(str(error))

    return _with_options("to", options, functools.wraps(command)(to_the_end))


def with_terms(lasts: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the options of placement orders to a command, after its own. The command gets them as `terms`. `lasts` is
    the default of --for, such as "1d"."""

    def options(
        for_: For = lasts, reason: Reason = "", wait: Wait = 0.0, force: Force = False, dry_run: DryRun = False
    ) -> OrderTerms:
        return OrderTerms(for_, reason, wait, force, dry_run)

    return functools.partial(_with_options, "terms", options)


def _with_options(name: str, options: Callable[..., Any], command: Callable[..., None]) -> Callable[..., None]:
    """Returns the command with its parameter `name` replaced by the parameters of `options`, after all others. The
    command gets the result of `options` for it."""
    shared = inspect.signature(options).parameters
    own = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != name]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        made = options(**{parameter: given.pop(parameter) for parameter in shared})
        command(**{name: made}, **given)

    with_options.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]  # read by inspect
    return with_options


def _once() -> Callable[[str], None]:
    """Returns a function that prints each sentence once on standard error, for commands that read repeatedly."""
    shown: set[str] = set()

    def echo_once(sentence: str) -> None:
        if sentence not in shown:
            shown.add(sentence)
            echo(sentence, err=True)

    return echo_once


def duration_ms(text: str) -> int:
    """Returns a duration such as "30m" in milliseconds, or ends the process with a sentence."""
    hit = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if hit is None or not int(hit[1]):
        fail(f"--for is '{text}', but must be a number and s, m, h or d, such as 30m.")
    return int(hit[1]) * UNITS_MS[hit[2]]
