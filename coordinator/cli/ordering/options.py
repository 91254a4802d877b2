"""What commands that order have in common: their arguments and options, and what becomes of those."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, settings_without_group
from bellwether_kafka.coordinator.cli.ordering.topic import OrdersTopic
from bellwether_kafka.coordinator.cli.output import As, Output, fail
from bellwether_kafka.coordinator.kafka import librdkafka_properties

DEFAULT_TOPIC = "bellwether-control"

ItemName = Annotated[str, typer.Argument(help='TOPIC-PARTITION, TOPIC, a task such as 1_5, a subtopology, or "*".')]
Where = Annotated[str, typer.Argument(help="rack:NAME or member:ID.")]
Topic = Annotated[str | None, typer.Option(help=f"The control topic, {DEFAULT_TOPIC} unless the file names one.")]
Reason = Annotated[str, typer.Option(help="Why; recorded with the order and shown in logs and causes.")]
For = Annotated[str, typer.Option("--for", help="How long it stands: a number and s, m, h or d.")]
Wait = Annotated[float, typer.Option(help="Seconds to follow it until it is in effect; exits 1 if it is not by then.")]
Force = Annotated[bool, typer.Option("--force", help="Order it though nobody could obey it now.")]
Remove = Annotated[
    bool, typer.Option("--remove", help="It has been stopped for good: remove what is left of it from the group.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan that would follow, and order nothing.")]


@dataclass(frozen=True, slots=True)
class Terms:
    """How an order on placement is given: for how long ("1d"), why, and what is asked of the command."""

    for_: str
    reason: str
    wait_s: float
    force: bool
    dry_run: bool

    @property
    def asked(self) -> dict[str, Any]:
        """For `OrdersTopic.give`."""
        return {"wait_s": self.wait_s, "force": self.force, "dry_run": self.dry_run}


def with_topic(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that lead to the control topic, behind its own; it gets the topic that they name, as
    `to`. An error of the topic ends the process."""

    def options(
        bootstrap: Bootstrap = None, config: Config = None, topic: Topic = None, output: As = Output.TABLE
    ) -> OrdersTopic:
        settings = settings_without_group(bootstrap, config)
        name = topic or settings.control_topic or DEFAULT_TOPIC
        return OrdersTopic(librdkafka_properties(settings.properties), name, output, bootstrap, config)

    def to_the_end(**given: Any) -> None:
        try:
            command(**given)
        except control.ControlTopicError as error:
            fail(str(error))

    return _with_options("to", options, functools.wraps(command)(to_the_end))


def with_terms(lasts: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of orders on placement, behind its own; it gets them as `terms`. An order lasts this
    long, such as "1d", where --for says nothing."""

    def options(
        for_: For = lasts, reason: Reason = "", wait: Wait = 0.0, force: Force = False, dry_run: DryRun = False
    ) -> Terms:
        return Terms(for_, reason, wait, force, dry_run)

    return functools.partial(_with_options, "terms", options)


def _with_options(name: str, options: Callable[..., Any], command: Callable[..., None]) -> Callable[..., None]:
    """The command with the parameters of `options`, behind all others, in place of its parameter `name`, for which it
    gets what `options` makes of them."""
    shared = inspect.signature(options).parameters
    own = [one for one in inspect.signature(command).parameters.values() if one.name != name]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        made = options(**{one: given.pop(one) for one in shared})
        command(**{name: made}, **given)

    with_options.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]
    return with_options
