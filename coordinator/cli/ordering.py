"""The common part of commands that give orders: the control topic, the checks of an order, how it is written and
followed, and the arguments and options.

If no topic is named, orders on a whole group go to the process on this machine that leads or observes it
(`control.local`).
"""

import functools
import getpass
import inspect
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import (
    DEFAULT_TOPIC,
    Bootstrap,
    Config,
    settings_for,
    settings_without_group,
)
from bellwether_kafka.coordinator.cli.output import As, Exit, Output, echo, fail, print_document
from bellwether_kafka.coordinator.cli.plan import show_plan
from bellwether_kafka.coordinator.cli.refresh import REFRESH_S, PlannedPlacement, observe_group, patiently
from bellwether_kafka.coordinator.membership import REBALANCING
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Observation

T = TypeVar("T")
POLL_S = 0.3
ONCE = (control.OrderKind.REBALANCE, control.OrderKind.DRAIN)
AWAY = (control.OrderKind.LEAVE, control.OrderKind.RELEASE)
FORGOTTEN = (*AWAY, control.OrderKind.PAUSE)  # lost in a restart if there is no control topic

ItemName = Annotated[str, typer.Argument(help='TOPIC-PARTITION, TOPIC, a task such as 1_5, a subtopology, or "*".')]
Where = Annotated[str, typer.Argument(help="rack:NAME or member:ID, the id also in short.")]
Topic = Annotated[
    str | None,
    typer.Option(
        help="The control topic, else the file's. Where neither is named, orders on a whole group go to the process on"
        f" this machine that leads or observes it, all others to {DEFAULT_TOPIC}."
    ),
]
Reason = Annotated[str, typer.Option(help="Why; recorded with the order and shown in logs and causes.")]
For = Annotated[str, typer.Option("--for", help="How long the order stays in force, such as 30m, 12h or 7d.")]
Wait = Annotated[float, typer.Option(help="Seconds to follow it until it is in effect; exits 1 if it is not by then.")]
Force = Annotated[bool, typer.Option("--force", help="Save the order although no process could carry it out now.")]
Remove = Annotated[
    bool, typer.Option("--remove", help="It has been stopped for good: remove what is left of it from the group.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan that would follow, and order nothing.")]
AnyOrder = control.Order | control.PlacementOrder


@dataclass(frozen=True, slots=True)
class OrderService:
    """The order channel of a command, and its output. `named`: the topic was named, by an option or the file. `local`:
    there is no topic, and `channel` reaches a process on this machine. `servers`: bootstrap.servers. If no broker
    answers, requests are retried for `patience_s`. All methods raise ControlTopicError."""

    channel: control.TopicChannel | control.LocalChannel
    name: str
    named: bool
    servers: str
    output: Output
    bootstrap: str | None = None
    config: Path | None = None
    local: bool = False
    patience_s: float = 0.0

    def or_local(self, group: str | None) -> "OrderService":
        """Returns a service for this machine's processes that have the group (None: any) if no topic is named and there
        are any; else this one."""
        processes = [] if self.named else control.local_processes(self.servers)
        mine = [process for process in processes if group is None or process.serves(group)]
        return replace(self, channel=control.LocalChannel(mine), local=True) if mine else self

    def read(self) -> Mapping[str, control.Record]:
        return self._patiently(self.channel.read)

    def write(self, record: control.Record) -> None:
        """Writes the record without checking its effect."""
        self._write(*control.encode(record))

    def withdraw(self, key: str) -> None:
        self._write(key.encode(), None)

    def _write(self, key: bytes, value: bytes | None) -> None:
        """Writes to the channel. Safe to retry: writing the same record twice has no effect."""
        self._patiently(lambda: self.channel.write(key, value))

    def _patiently(self, ask: Callable[[], T]) -> T:
        return patiently(ask, self.patience_s, unanswered=(control.SilentTopicError,))

    def give(self, order: AnyOrder, sentence: str, *, wait_s: float, force: bool, dry_run: bool = False) -> None:
        """Writes an order and follows it for `wait_s`. Ends the process if the order cannot be carried out, unless
        `force` is set. With `dry_run` it only prints the plan."""
        records = self.read()
        objection = control.objection(order, records, now_ms())
        placed = None
        if (isinstance(order, control.PlacementOrder) or dry_run) and not (objection and not force):
            placed = self._placed(order, records) if force else self._at_rest(order, records, wait_s)
            objection = objection or placed.objection or _not_evacuated(order, placed)
        if objection and not force:
            fail(f"{objection} Nothing was ordered; --force orders it all the same.")
        if dry_run:
            assert placed is not None  # noqa: S101 - set above
            show_plan(*placed.planned(), self.output)
            return
        self._write(*control.encode(order))
        if self.local and order.kind in FORGOTTEN:
            sentence += " So does a restart of the process: without control_topic orders are in its memory only."
        if sentence and not self.output.is_document:
            echo(sentence)
        if objection:
            echo(f"But: {objection}", err=True)
        done = self._followed(order, placed, wait_s) if wait_s else None
        if self.output.is_document:
            print_document(
                {"order": document(order), "warning": objection, "in_effect": done, "message": sentence}, self.output
            )
        if done is False:
            raise typer.Exit(Exit.UNEXPECTED)

    def in_full(self, group: str, where: str) -> str:
        """Returns the full id of a place that was given in short, as leaders know it."""
        settings, named = settings_for(self.bootstrap, self.config, group)
        policy = None if named else control.policy_of(self.read(), group, now_ms())
        place = PlannedPlacement(settings, group, (), None, policy, configured=named, patience_s=self.patience_s)
        return place.in_full(where)

    def placed(self, group: str) -> PlannedPlacement:
        """Returns the group under the orders in force."""
        return self._under(group, self.read(), None)

    def at_rest(self, group: str, wait_s: float) -> Observation:
        """Returns the group under the orders in force, once no rebalance is under way or after `wait_s`."""
        began = time.monotonic()
        while (seen := self.placed(group).seen()).state in REBALANCING and time.monotonic() - began < wait_s:
            time.sleep(REFRESH_S)
        return seen

    def _at_rest(self, order: AnyOrder, records: Mapping[str, control.Record], wait_s: float) -> PlannedPlacement:
        """Returns the group as the order finds it. Waits for at most `wait_s` while a rebalance hides its state."""
        began = time.monotonic()
        while True:
            placed = self._placed(order, records)
            if not (placed.objection and placed.rebalancing) or time.monotonic() - began >= wait_s:
                return placed
            time.sleep(REFRESH_S)

    def _placed(self, order: AnyOrder, records: Mapping[str, control.Record]) -> PlannedPlacement:
        others = {key: record for key, record in records.items() if key != order.key}
        return self._under(order.target, others, order.rule if isinstance(order, control.PlacementOrder) else None)

    def _under(self, group: str, records: Mapping[str, control.Record], rule: Rule | None) -> PlannedPlacement:
        in_force = control.OrderState()
        for key, record in records.items():
            in_force.apply(key, record)
        settings, named = settings_for(self.bootstrap, self.config, group)
        rules = tuple(one.rule for one in in_force.placements(group, now_ms()))
        policy = control.policy_of(records, group, now_ms())
        return PlannedPlacement(settings, group, rules, rule, policy, configured=named, patience_s=self.patience_s)

    def _followed(self, order: AnyOrder, placed: PlannedPlacement | None, wait_s: float) -> bool:
        """Returns whether the order takes effect within `wait_s`. Prints what is missing whenever that changes."""
        began, last = time.monotonic(), ""
        while True:
            missing = placed.missing(time.monotonic() - began) if placed is not None else self._missing(order)
            if not missing and isinstance(order, control.PlacementOrder) and order.until is not control.Until.EXPIRY:
                missing = unseen(order, self.read())
            if not missing:
                echo("It is in effect.", err=True)
                return True
            if missing != last:
                echo(missing, err=True)
                last = missing
            if time.monotonic() - began >= wait_s:
                echo(f"It is not in effect within {wait_s:g} s: {missing}", err=True)
                return False
            time.sleep(REFRESH_S if placed is not None else POLL_S)

    def _missing(self, order: AnyOrder) -> str:
        """Returns what is missing until an order on a group or an instance has been carried out, "" for nothing."""
        records = self.read()
        if order.kind in ONCE:
            where = "on this machine" if self.local else f"to the control topic '{self.name}'"
            listen = f"see 'bellwether orders' for the instances of Bellwether that read orders {where}"
            return f"no instance of Bellwether has taken the order; {listen}." if order.key in records else ""
        heartbeats = [heartbeat for heartbeat in control.heard(records, now_ms()) if order.target in heartbeat.groups]
        unheard = [heartbeat.instance for heartbeat in heartbeats if heartbeat.at_ms <= order.at_ms]
        if unheard or not heartbeats:
            return f"{', '.join(unheard) or 'no instance of Bellwether'} has reported nothing since."
        leads = [heartbeat.instance for heartbeat in heartbeats if order.target in heartbeat.leads]
        return f"{leads[0]} still leads it." if leads and order.kind in AWAY else ""


def document(order: AnyOrder) -> dict[str, Any]:
    return {**{name: fields for name, fields in order.to_json().items() if name != "v"}, "sentence": order.sentence}


def owner() -> str:
    """Returns `user@host`, the owner of orders. In a container the user id may have no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def now_ms() -> int:
    return int(time.time() * 1000)


def unseen(order: control.PlacementOrder, records: Mapping[str, control.Record]) -> str:
    """Returns what the leader has not yet seen of the absence that ends the order, "" for nothing. A member that
    stopped earlier could come back unrecognised."""
    in_force = records.get(order.key) == order
    if order.until is control.Until.REMOVED:
        return f"{order.where} is still in the group." if in_force else ""
    if not in_force:
        return "the order has ended already: it was withdrawn, or the member is back."
    absence = control.absence_of(records, order)
    empty = absence is not None and absence.stage is not control.Stage.EMPTYING
    return "" if empty else "the leader has not seen it empty yet."


def _not_evacuated(order: AnyOrder, placed: PlannedPlacement) -> str:
    """Returns why a member must not be removed yet, as a sentence; "" if it may be."""
    if not isinstance(order, control.PlacementOrder) or order.until is not control.Until.REMOVED:
        return ""
    command = f"'bellwether evacuate {for_shell(order.target)} {for_shell(order.where)}'"
    return f"{order.where} still has work; empty it with {command}, and stop it." if placed.missing(0.0) else ""


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


def _once() -> Callable[[str], None]:
    """Returns a function that prints each sentence once on standard error, for commands that read repeatedly."""
    shown: set[str] = set()

    def echo_once(sentence: str) -> None:
        if sentence not in shown:
            shown.add(sentence)
            echo(sentence, err=True)

    return echo_once


def with_topic(command: Callable[..., None], *, local: bool = False) -> Callable[..., None]:
    """Adds the control topic's options to a command, after its own. The command gets the resulting service as `to`.
    `local`: if no topic is named, a process on this machine may be used. An error of the topic ends the process."""

    def options(
        bootstrap: Bootstrap = None, config: Config = None, topic: Topic = None, output: As = Output.TABLE
    ) -> OrderService:
        settings = settings_without_group(bootstrap, config)
        name = topic or settings.control_topic
        channel = control.TopicChannel(settings.properties, name or DEFAULT_TOPIC, _once())
        servers = settings.properties["bootstrap.servers"]
        return OrderService(channel, channel.topic, bool(name), servers, output, bootstrap, config)

    def to_the_end(to: OrderService, **given: Any) -> None:
        group = given.get("group")
        # A command that waits for the group also waits for brokers: if a stop hook fails, nothing is evacuated.
        to = replace(to, patience_s=given.get("wait", 0.0))
        try:
            command(to=to.or_local(group) if local else to, **given)
        except control.NoControlTopicError as error:
            fail(str(error) if to.named or not local or group is None else _nobody_here(to, group))
        except control.ControlTopicError as error:
            fail(str(error))

    return _with_options("to", options, functools.wraps(command)(to_the_end))


with_topic_or_locally = functools.partial(with_topic, local=True)


def _nobody_here(to: OrderService, group: str) -> str:
    """Returns why an order reaches no process: there is no control topic and no local process with the group."""
    settings, _ = settings_for(to.bootstrap, to.config, group)
    leading = observe_group(settings, group).bellwether_members
    if not leading:
        return f"No Bellwether leads '{group}', and none of this user on this machine is to. Nothing was ordered."
    host = leading[0].client_host.lstrip("/")
    return (
        f"Bellwether leads '{group}' from {host}, but in no process of this user on this machine, and no control topic"
        " is named. Run the command there as the user of that process (in its container, if it has one), or set"
        " control_topic for both. Nothing was ordered."
    )


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
    own = [one for one in inspect.signature(command).parameters.values() if one.name != name]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        made = options(**{one: given.pop(one) for one in shared})
        command(**{name: made}, **given)

    with_options.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]  # read by inspect
    return with_options
