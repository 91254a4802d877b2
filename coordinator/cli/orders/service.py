"""How an order is given: it is checked (`check`), written as one record to the control topic, and followed until it is
in effect. WRITE on the topic is the permission. It also has the options that commands of orders share.
"""

import asyncio
import getpass
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import settings_for, settings_without_group
from bellwether_kafka.coordinator.cli.orders.check import PlannedPlacement, not_evacuated
from bellwether_kafka.coordinator.cli.output import Exit, Output, echo, fail, print_document
from bellwether_kafka.coordinator.cli.plan import show_plan
from bellwether_kafka.coordinator.cli.read_groups import CONNECT_TIMEOUT_MS, REFRESH_S, retried
from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.membership import REBALANCING
from bellwether_kafka.coordinator.observation import Observation, described_by_broker
from bellwether_kafka.coordinator.settings import Settings

T = TypeVar("T")
POLL_S = 0.3
# Until a broker's group is reported: a refresh, which shows whose members a plan was for, and a heartbeat.
REPORTED_WITHIN_S = 15.0
NO_TOPIC = (
    'control_topic = "" means that nobody gives orders; name the topic that the process reads, there or with --topic.'
    " A process without one leaves all its groups at SIGUSR1."
)
Place = Annotated[str, typer.Argument(metavar="WHERE", help="member:ID.")]
Reason = Annotated[str, typer.Option(help="Why; recorded with the order and shown in logs and causes.")]
Force = Annotated[bool, typer.Option("--force", help="Save the order although no process could carry it out now.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan that would follow, and order nothing.")]
GroupOrAll = Annotated[
    str | None, typer.Argument(help="The group id, of an application its application id.", show_default=False)
]
AllGroups = Annotated[
    bool, typer.Option("--all", help="All groups that live processes lead or are to lead, in place of one.")
]


def order_service(
    bootstrap: str | None, config: Path | None, topic: str | None, output: Output, *, retry_s: float = 0.0
) -> "OrderService":
    """Returns the service for the options of a command. `retry_s`: a command that waits for the group also waits for
    brokers; if a stop hook failed, nothing would be evacuated."""
    settings = settings_without_group(bootstrap, config)
    name = topic or settings.control_topic
    if not name:
        fail(NO_TOPIC)
    return OrderService(
        control.TopicChannel(settings.properties, name, _once()), output, bootstrap, config, retry_s=retry_s
    )


@dataclass(frozen=True, slots=True)
class OrderService:
    """The control topic of a command, and its output. If no broker answers, requests are retried for `retry_s`. An
    error of the topic ends the process with its sentence."""

    channel: control.TopicChannel
    output: Output
    bootstrap: str | None = None
    config: Path | None = None
    retry_s: float = 0.0

    def read(self) -> Mapping[str, control.Record]:
        return self._retried(self.channel.read)

    def write(self, *records: control.Record) -> None:
        """Writes the records without checking their effect. Safe to retry: one that is written twice has no other."""
        self._retried(lambda: self.channel.write(*map(control.encode, records)))

    def withdraw(self, *keys: str) -> None:
        self._retried(lambda: self.channel.write(*((key.encode(), None) for key in keys)))

    def _retried(self, ask: Callable[[], T]) -> T:
        try:
            return retried(ask, self.retry_s, unanswered=(control.SilentTopicError,))
        except control.ControlTopicError as error:
            fail(str(error))

    def give(
        self, order: control.AnyOrder, sentence: str, *, wait_s: float, force: bool, dry_run: bool = False
    ) -> None:
        """Writes an order and follows it for `wait_s`. Ends the process if the order cannot be carried out, unless
        `force` is set. With `dry_run` it only prints the plan."""
        records, objection = self.read(), ""
        if not force and self._may_be_served(order, records):
            objection = self._unfollowed(order)
            records = self.read()  # it may have waited for a report
        objection = objection or control.objection(order, records, now_ms())
        placed = None
        if (control.traits_of(order).places or dry_run) and not (objection and not force):
            placed = self._placed(order, records) if force else self._at_rest(order, records, wait_s)
            objection = objection or placed.objection or not_evacuated(order, placed)
        if objection and not force:
            remedy = "; --force orders it all the same" if control.traits_of(order).forcible else ""
            fail(f"{objection} Nothing was ordered{remedy}.")
        if dry_run:
            assert placed is not None  # noqa: S101 - set above
            show_plan(*placed.planned(), self.output)
            return
        self.write(order)
        if sentence:
            sentence += _replaced(records.get(order.key), order, now_ms())
        if sentence and not self.output.is_document:
            echo(sentence)
        if objection:
            echo(f"But: {objection}", err=True)
        done = self._followed(order, placed, wait_s) if wait_s else None
        if self.output.is_document:
            print_document({"order": document(order), "warning": objection, "in_effect": done, "message": sentence})
        if done is False:
            raise typer.Exit(Exit.NOT_SO)

    def give_all(self, orders: Sequence[control.AnyOrder], sentence: str, *, wait_s: float) -> None:
        """Writes orders that last, on several groups, and follows them for `wait_s`. Nothing is checked."""
        self.write(*orders)
        if not self.output.is_document:
            echo(sentence)

        def missing(_elapsed_s: float) -> str:
            records = self.read()
            pending = ((order, unread(order, records, now_ms())) for order in orders)
            return next((f"{order.target}: {why}" for order, why in pending if why), "")

        done = follow(missing, wait_s, POLL_S) if wait_s else None
        if self.output.is_document:
            documents = [document(order) for order in orders]
            print_document({"orders": documents, "in_effect": done, "message": sentence})
        if done is False:
            raise typer.Exit(Exit.NOT_SO)

    def _may_be_served(self, order: control.AnyOrder, records: Mapping[str, control.Record]) -> bool:
        """Returns whether the order is one that a broker could follow, for a group that Bellwether does not lead."""
        living = control.recent_heartbeats(records, now_ms())
        return control.traits_of(order).served and not any(order.target in heartbeat.leads for heartbeat in living)

    def _unfollowed(self, order: control.AnyOrder) -> str:
        """Returns why the group's broker would not follow an order for the next plan, "" if it would or no broker
        assigns."""
        settings, _ = settings_for(self.bootstrap, self.config, order.target)
        objection = unfollowed_by_broker(settings, order.target, lambda: self._is_reported(order.target))
        return objection and objection + control.clocks_may_differ(self.read(), order.target, now_ms())

    def _is_reported(self, group: str) -> bool:
        """Returns whether a live process reports within REPORTED_WITHIN_S that the group's broker assigns by plans of
        Bellwether. Returns at once where no process lives."""
        until, waits = time.monotonic() + REPORTED_WITHIN_S, False
        while True:
            living = control.recent_heartbeats(self.read(), now_ms())
            served = any(group in heartbeat.serves for heartbeat in living)
            if served or not living or time.monotonic() >= until:
                return served
            if not waits:
                echo(f"Waiting for the Bellwether beside the broker to report '{group}'.", err=True)
            waits = True
            time.sleep(POLL_S)

    def in_full(self, group: str, where: str) -> str:
        """Returns the full id of a place that was given in short, as leaders know it."""
        settings, named = settings_for(self.bootstrap, self.config, group)
        policy = None if named else control.policy_of(self.read(), group, now_ms())
        place = PlannedPlacement(settings, group, (), (), policy, configured=named, retry_s=self.retry_s)
        return place.in_full(where)

    def is_served(self, group: str) -> bool:
        """Returns whether the group's broker assigns by plans of Bellwether."""
        return any(group in heartbeat.serves for heartbeat in control.recent_heartbeats(self.read(), now_ms()))

    def placed(self, group: str) -> PlannedPlacement:
        """Returns the group under the orders in force."""
        return self._under(group, self.read(), ())

    def at_rest(self, group: str, wait_s: float) -> Observation:
        """Returns the group under the orders in force, once no rebalance is under way or after `wait_s`."""
        began = time.monotonic()
        while (seen := self.placed(group).seen()).state in REBALANCING and time.monotonic() - began < wait_s:
            time.sleep(REFRESH_S)
        return seen

    def _at_rest(
        self, order: control.AnyOrder, records: Mapping[str, control.Record], wait_s: float
    ) -> PlannedPlacement:
        """Returns the group as the order finds it. Waits for at most `wait_s` while a rebalance hides its state."""
        began = time.monotonic()
        while True:
            placed = self._placed(order, records)
            if not (placed.objection and placed.rebalancing) or time.monotonic() - began >= wait_s:
                return placed
            time.sleep(REFRESH_S)

    def _placed(self, order: control.AnyOrder, records: Mapping[str, control.Record]) -> PlannedPlacement:
        others = {key: record for key, record in records.items() if key != order.key}
        return self._under(order.target, others, () if isinstance(order, control.Order) else order.rules)

    def _under(
        self, group: str, records: Mapping[str, control.Record], new_rules: tuple[Rule, ...]
    ) -> PlannedPlacement:
        settings, named = settings_for(self.bootstrap, self.config, group)
        rules = control.Orders(records).of(group, now_ms()).rules
        policy = control.policy_of(records, group, now_ms())
        return PlannedPlacement(settings, group, rules, new_rules, policy, configured=named, retry_s=self.retry_s)

    def _followed(self, order: control.AnyOrder, placed: PlannedPlacement | None, wait_s: float) -> bool:
        """Returns whether the order takes effect within `wait_s`. Prints what is missing whenever that changes."""

        def missing(elapsed_s: float) -> str:
            sentence = placed.missing(elapsed_s) if placed is not None else self._unread(order)
            if not sentence and isinstance(order, control.PlacementOrder) and order.until is not control.Until.EXPIRY:
                return unseen(order, self.read())
            if not sentence and isinstance(order, control.AppliedPlan):
                return outdated(order, self.read())
            return sentence

        return follow(missing, wait_s, REFRESH_S if placed is not None else POLL_S)

    def _unread(self, order: control.AnyOrder) -> str:
        return unread(order, self.read(), now_ms())


def _replaced(before: control.Record | None, order: control.AnyOrder, at_ms: int) -> str:
    """Returns a sentence, after a space, on the order in force that this one replaces, "" for none: an item has one
    pin, a group one order to leave."""
    if not isinstance(before, control.AnyOrder) or before.expires_ms <= at_ms or before.sentence == order.sentence:
        return ""
    return f" It replaces an order: {before.sentence}, {control.end_in_words(before)}."


def document(order: control.AnyOrder) -> dict[str, Any]:
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


def _once() -> Callable[[str], None]:
    """Returns a function that prints each sentence once on standard error, for commands that read repeatedly."""
    shown: set[str] = set()

    def echo_once(sentence: str) -> None:
        if sentence not in shown:
            shown.add(sentence)
            echo(sentence, err=True)

    return echo_once


def follow(missing: Callable[[float], str], wait_s: float, pause_s: float) -> bool:
    """Returns whether an order takes effect within `wait_s`. `missing` returns what is missing after the given seconds,
    "" for nothing; it is called every `pause_s`, and what it returns is printed whenever that changes."""
    began, last = time.monotonic(), ""
    while True:
        sentence = missing(time.monotonic() - began)
        if not sentence:
            echo("It is in effect.", err=True)
            return True
        if sentence != last:
            echo(sentence, err=True)
            last = sentence
        if time.monotonic() - began >= wait_s:
            echo(f"It is not in effect within {wait_s:g} s: {sentence}", err=True)
            return False
        time.sleep(pause_s)


def unread(order: control.AnyOrder, records: Mapping[str, control.Record], now_ms: int) -> str:
    """Returns what is missing until an order on a group or an instance has been carried out, "" for nothing."""
    traits = control.traits_of(order)
    if not traits.lasts:
        listen = "see 'bellwether orders' for the instances of Bellwether that read this control topic"
        return f"no instance of Bellwether has taken the order; {listen}." if order.key in records else ""
    heartbeats = [
        heartbeat for heartbeat in control.recent_heartbeats(records, now_ms) if order.target in heartbeat.groups
    ]
    silent = [heartbeat.instance for heartbeat in heartbeats if heartbeat.at_ms <= order.at_ms]
    if not heartbeats:
        return "no instance of Bellwether with the group has reported."
    if silent:
        return f"{', '.join(silent)} has reported nothing since."
    leads = [heartbeat.instance for heartbeat in heartbeats if order.target in heartbeat.leads]
    return f"{leads[0]} still leads it." if leads and traits.leaves else ""


def outdated(order: control.AppliedPlan, records: Mapping[str, control.Record]) -> str:
    """Returns that the applied plan is not in force any more, "" while it is."""
    in_force = records.get(order.key) == order
    return "" if in_force else "the plan has ended already: it was withdrawn, or the members have changed."


def unseen(order: control.PlacementOrder, records: Mapping[str, control.Record]) -> str:
    """Returns what Bellwether has not yet seen of the absence that ends the order, "" for nothing. A member that
    stopped earlier could come back unrecognised."""
    in_force = records.get(order.key) == order
    if order.until is control.Until.REMOVED:
        return f"{order.where} is still in the group." if in_force else ""
    if not in_force:
        return "the order has ended already: it was withdrawn, or the member is back."
    absence = control.absence_of(records, order)
    empty = absence is not None and absence.stage is not control.Stage.EMPTYING
    return "" if empty else "Bellwether has not seen it empty yet."


def unfollowed_by_broker(settings: Settings, group: str, is_served: Callable[[], bool]) -> str:
    """Returns why the broker of this group would not follow an order, as sentences with the remedy; "" if a member
    assigns, or if that cannot be read. `is_served` returns whether a Bellwether reports that it has served the group a
    plan, and may wait for that report; it is called only if the assignor asks Bellwether."""
    described = asyncio.run(_described(settings, group))
    if not isinstance(described, wire.BrokerGroup):
        return ""
    unfollowed = partial(
        control.unfollowed, group, described.protocol, described.assignor, members=bool(described.members)
    )
    return unfollowed(served=True) or unfollowed(served=is_served())


async def _described(settings: Settings, group: str) -> wire.BrokerGroup | int | None:
    transport = wire.Transport(settings.properties)
    try:
        await transport.start(CONNECT_TIMEOUT_MS)
        return await described_by_broker(transport, group)
    except wire.TransportError:
        return None  # no broker answers
    finally:
        await transport.close()
