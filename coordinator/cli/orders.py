"""The commands that order something of running sidecars: leave, drain, rebalance, pause, pin, ban, evacuate, ...

Each writes one record to the control topic (`control.records` says what is in it); WRITE on that topic is the
permission. An order stays in force through restarts and fail-overs until it expires or is withdrawn. What nobody could
obey is not written: who listens is in the topic (`control.checks`), what can be placed is in the group (`look.Placed`).

Where no topic is named, orders on a whole group go to the process on this machine that looks after it
(`control.local`).
"""

import functools
import getpass
import inspect
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bellwether_kafka.assignors.shared import EVERYTHING
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.look import Placed, look
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Group, settings_for, settings_without_group
from bellwether_kafka.coordinator.cli.output import As, Exit, Output, as_json, fail, tell
from bellwether_kafka.coordinator.cli.plan import show_plan
from bellwether_kafka.coordinator.kafka import librdkafka_properties

DEFAULT_TOPIC = "bellwether-control"
POLL_S = 0.3
LOOK_S = 1.0  # between two looks at a group, which take connections
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ONCE = (control.OrderKind.REBALANCE, control.OrderKind.DRAIN)
FORGOTTEN = (control.OrderKind.LEAVE, control.OrderKind.PAUSE)  # by a restart where there is no control topic
ONCE_MS = 60_000  # an order that is carried out once and finds nobody to do so is void after this

ItemName = Annotated[str, typer.Argument(help='TOPIC-PARTITION, TOPIC, a task such as 1_5, a subtopology, or "*".')]
Where = Annotated[str, typer.Argument(help="rack:NAME or member:ID.")]
Topic = Annotated[str | None, typer.Option(help=f"The control topic, {DEFAULT_TOPIC} unless the file names one.")]
Reason = Annotated[str, typer.Option(help="Why; recorded with the order and shown in logs and causes.")]
For = Annotated[str, typer.Option("--for", help="How long it stands: a number and s, m, h or d.")]
Wait = Annotated[float, typer.Option(help="Seconds to follow it until it is in effect; exits 1 if it is not by then.")]
Force = Annotated[bool, typer.Option("--force", help="Order it though nobody could obey it now.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan that would follow, and order nothing.")]
AnyOrder = control.Order | control.PlacementOrder


@dataclass(frozen=True, slots=True)
class OrdersTopic:
    """What a command writes to, and how it prints. `named`: the topic was named, by an option or the file; `local`:
    there is none, and `desk` is that of a process on this machine. `servers` is bootstrap.servers. All methods raise
    ControlTopicError."""

    desk: control.TopicDesk | control.LocalDesk
    name: str
    named: bool
    servers: str
    output: Output
    bootstrap: str | None = None
    config: Path | None = None
    local: bool = False

    def or_local(self, group: str | None) -> "OrdersTopic":
        """The same, or the processes of this machine that look after the group (None: any), where no topic is named."""
        processes = [] if self.named else control.local_processes(self.servers)
        mine = [process for process in processes if group is None or process.looks_after(group)]
        return replace(self, desk=control.LocalDesk(mine), local=True) if mine else self

    def read(self) -> Mapping[str, control.Record]:
        return self.desk.read()

    def withdraw(self, key: str) -> None:
        self.desk.write(key.encode(), None)

    def give(self, order: AnyOrder, sentence: str, *, wait_s: float, force: bool, dry_run: bool = False) -> None:
        """Writes an order that somebody can obey, and follows it for `wait_s`. Ends the process where nobody can."""
        records = self.read()
        doubt = control.objection(order, records, _now_ms())
        placed = None
        if (isinstance(order, control.PlacementOrder) or dry_run) and not (doubt and not force):
            placed = self._placed(order, records)
            doubt = doubt or placed.doubt
        if doubt and not force:
            fail(f"{doubt} Nothing was ordered; --force orders it all the same.")
        if dry_run:
            assert placed is not None  # noqa: S101 - looked at above
            show_plan(placed.planned(), self.output)
            return
        self.desk.write(*control.encode(order))
        if self.local and order.kind in FORGOTTEN:
            sentence += " So does a restart of the process: without control_topic orders stand in its memory only."
        if self.output is Output.TABLE:
            typer.echo(sentence)
        if doubt:
            typer.echo(f"But: {doubt}", err=True)
        done = self._followed(order, placed, wait_s) if wait_s else None
        if self.output is Output.JSON:
            as_json({"order": _document(order), "warning": doubt, "in_effect": done, "said": sentence})
        if done is False:
            raise typer.Exit(Exit.UNEXPECTED)

    def _placed(self, order: AnyOrder, records: Mapping[str, control.Record]) -> Placed:
        standing = control.OrderState()
        for key, record in records.items():
            if key != order.key:
                standing.apply(key, record)
        settings, named = settings_for(self.bootstrap, self.config, order.target)
        rules = tuple(one.rule for one in standing.placements(order.target, _now_ms()))
        rule = order.rule if isinstance(order, control.PlacementOrder) else None
        policy = control.policy_of(records, order.target, _now_ms())
        return Placed(settings, order.target, rules, rule, policy, configured=named)

    def _followed(self, order: AnyOrder, placed: Placed | None, wait_s: float) -> bool:
        """Whether the order is in effect before the time is over; says what is missing when that changes."""
        began, said = time.monotonic(), ""
        while True:
            missing = placed.missing(time.monotonic() - began) if placed is not None else self._missing(order)
            if not missing:
                typer.echo("It is in effect.", err=True)
                return True
            if missing != said:
                typer.echo(missing, err=True)
                said = missing
            if time.monotonic() - began >= wait_s:
                typer.echo(f"It is not in effect within {wait_s:g} s: {missing}", err=True)
                return False
            time.sleep(LOOK_S if placed is not None else POLL_S)

    def _missing(self, order: AnyOrder) -> str:
        """What is to happen until an order on a whole group or a sidecar has been carried out, "" for nothing."""
        records = self.read()
        if order.kind in ONCE:
            where = "on this machine" if self.local else f"to the control topic '{self.name}'"
            listen = f"see 'bellwether orders' for who listens {where}"
            return f"no sidecar has taken the order; {listen}." if order.key in records else ""
        beats = [beat for beat in control.heard(records, _now_ms()) if order.target in beat.groups]
        unheard = [beat.sidecar for beat in beats if beat.at_ms <= order.at_ms]
        if unheard or not beats:
            return f"{', '.join(unheard) or 'no sidecar'} has said nothing since."
        leads = [beat.sidecar for beat in beats if order.target in beat.leads]
        return f"{leads[0]} still leads it." if leads and order.kind is control.OrderKind.LEAVE else ""


@dataclass(frozen=True, slots=True)
class Terms:
    """How an order on placement is given: for how long ("1d"), why, and what is asked of the command."""

    for_: str
    reason: str
    wait_s: float
    force: bool
    dry_run: bool


def with_topic(command: Callable[..., None], *, local: bool = False) -> Callable[..., None]:
    """Gives a command the options that lead to the control topic, behind its own; it gets the topic that they name, as
    `to`. `local`: a process on this machine will do where none is named. An error of the topic ends the process."""

    def options(
        bootstrap: Bootstrap = None, config: Config = None, topic: Topic = None, output: As = Output.TABLE
    ) -> OrdersTopic:
        settings = settings_without_group(bootstrap, config)
        name = topic or settings.control_topic
        desk = control.TopicDesk(librdkafka_properties(settings.properties), name or DEFAULT_TOPIC)
        servers = settings.properties["bootstrap.servers"]
        return OrdersTopic(desk, desk.topic, bool(name), servers, output, bootstrap, config)

    def to_the_end(to: OrdersTopic, **given: Any) -> None:
        group = given.get("group")
        try:
            command(to=to.or_local(group) if local else to, **given)
        except control.NoControlTopicError as error:
            fail(str(error) if to.named or not local or group is None else _nobody_here(to, group))
        except control.ControlTopicError as error:
            fail(str(error))

    return _with_options("to", options, functools.wraps(command)(to_the_end))


with_topic_or_locally = functools.partial(with_topic, local=True)


def _nobody_here(to: OrdersTopic, group: str) -> str:
    """Why an order reaches nobody where no control topic is named and no process of this machine has the group."""
    settings, _ = settings_for(to.bootstrap, to.config, group)
    leading = look(settings, group).sidecars
    if not leading:
        return f"No Bellwether leads '{group}', and none of this user on this machine is to. Nothing was ordered."
    host = leading[0].client_host.lstrip("/")
    return (
        f"Bellwether leads '{group}' from {host}, but in no process of this user on this machine, and no control topic"
        " is named. Run the command there as the user of that process (in its container, if it has one), or set"
        " control_topic for both. Nothing was ordered."
    )


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


@with_topic_or_locally
def leave(
    to: OrdersTopic, group: Group, for_: For = "1h", reason: Reason = "", wait: Wait = 0.0, force: Force = False
) -> None:
    order = _order(control.OrderKind.LEAVE, group, _duration_ms(for_), reason)
    sentence = f"Bellwether leaves {group} and stays out for {for_}; 'bellwether resume {group}' ends that."
    to.give(order, sentence, wait_s=wait, force=force)


@with_topic_or_locally
def pause(
    to: OrdersTopic, group: Group, for_: For = "1h", reason: Reason = "", wait: Wait = 0.0, force: Force = False
) -> None:
    order = _order(control.OrderKind.PAUSE, group, _duration_ms(for_), reason)
    sentence = f"Bellwether begins no rebalance in {group} for {for_}; 'bellwether resume {group}' ends that."
    to.give(order, sentence, wait_s=wait, force=force)


@with_topic_or_locally
def resume(to: OrdersTopic, group: Group) -> None:
    records = to.read()
    keys = [control.order_key(kind, group) for kind in (control.OrderKind.LEAVE, control.OrderKind.PAUSE)]
    found = [key for key in keys if key in records]
    if not found:
        fail(f"There is no order to leave or pause {group}; see 'bellwether orders'.")
    for key in found:
        to.withdraw(key)
    tell(to.output, f"Orders to leave or pause {group} are withdrawn.", group=group)


@with_topic_or_locally
def rebalance(
    to: OrdersTopic,
    group: Group,
    reason: Reason = "",
    wait: Wait = 10.0,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    order = _order(control.OrderKind.REBALANCE, group, ONCE_MS, reason)
    to.give(order, f"A rebalance of {group} is ordered.", wait_s=wait, force=force, dry_run=dry_run)


@with_topic
def drain(
    to: OrdersTopic,
    sidecar: Annotated[
        str, typer.Argument(help="The sidecar's id; without one, whichever leads.", show_default=False)
    ] = control.EVERYBODY,
    reason: Reason = "",
    wait: Wait = 10.0,
    force: Force = False,
) -> None:
    order = _order(control.OrderKind.DRAIN, sidecar, ONCE_MS, reason)
    to.give(order, "A sidecar hands its groups over.", wait_s=wait, force=force)


@with_topic
@with_terms("1d")
def pin(to: OrdersTopic, terms: Terms, group: Group, item: ItemName, where: Where) -> None:
    order = _placement(control.PlacementKind.PIN, group, item, where, terms)
    _place(to, order, terms, f"{item} of {group} belongs on {where}")


@with_topic
@with_terms("1d")
def ban(to: OrdersTopic, terms: Terms, group: Group, item: ItemName, where: Where) -> None:
    order = _placement(control.PlacementKind.BAN, group, item, where, terms)
    _place(to, order, terms, f"{item} of {group} stays off {where}")


@with_topic
@with_terms("1h")
def evacuate(to: OrdersTopic, terms: Terms, group: Group, where: Where) -> None:
    order = _placement(control.PlacementKind.EVACUATE, group, EVERYTHING, where, terms)
    _place(to, order, terms, f"{where} is to be empty of {group}")


@with_topic
def unpin(
    to: OrdersTopic,
    group: Group,
    item: Annotated[
        str | None, typer.Argument(help="An item as it was ordered, or the rack:NAME or member:ID of an evacuation.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Withdraw all of the group.")] = False,
) -> None:
    if (item is None) != everything:
        fail("Name an item or a place, or say --all.")
    placed = [record for record in to.read().values() if isinstance(record, control.PlacementOrder)]
    found = [o for o in placed if o.target == group and (everything or item == EVERYTHING or _is_named(o, item))]
    if not found:
        what = "pin, ban or evacuation" if everything else f"pin, ban or evacuation of {item}"
        fail(f"There is no {what} in {group}; see 'bellwether orders'.")
    for order in found:
        to.withdraw(order.key)
    sentences = "\n".join(f"Withdrawn: {order.sentence}." for order in found)
    tell(to.output, sentences, withdrawn=[_document(order) for order in found])


@with_topic_or_locally
def orders(to: OrdersTopic) -> None:
    now_ms = _now_ms()
    records = [record for _, record in sorted(to.read().items())]
    beats = [record for record in records if isinstance(record, control.Beat)]
    stand = [r for r in records if isinstance(r, control.Order | control.PlacementOrder) and r.expires_ms > now_ms]
    if to.output is Output.JSON:
        as_json({"sidecars": [asdict(beat) for beat in beats], "orders": [_document(order) for order in stand]})
        return
    for beat in beats:
        age_s = max(0, now_ms - beat.at_ms) / 1000
        typer.echo(f"sidecar {beat.sidecar}: leads {len(beat.leads)}, last beat {age_s:.0f} s ago")
    for order in stand:
        until = datetime.fromtimestamp(order.expires_ms / 1000, UTC).isoformat(timespec="seconds")
        typer.echo(f"{order.sentence}, until {until}")


def _order(kind: control.OrderKind, target: str, lasts_ms: int, reason: str) -> control.Order:
    at_ms = _now_ms()
    return control.Order(kind, target, _owner(), at_ms, at_ms + lasts_ms, reason)


def _placement(kind: control.PlacementKind, group: str, item: str, where: str, terms: Terms) -> control.PlacementOrder:
    if not where.startswith(("rack:", "member:")) or where.endswith(":"):
        fail(f"'{where}' names no place; write rack:NAME, or member:ID (a member, client, instance or process id).")
    at_ms = _now_ms()
    expires_ms = at_ms + _duration_ms(terms.for_)
    return control.PlacementOrder(kind, group, item, where, _owner(), at_ms, expires_ms, terms.reason)


def _place(to: OrdersTopic, order: control.PlacementOrder, terms: Terms, outcome: str) -> None:
    sentence = f"{outcome} for {terms.for_}; {_ends(order)} ends that."
    to.give(order, sentence, wait_s=terms.wait_s, force=terms.force, dry_run=terms.dry_run)


def _is_named(order: control.PlacementOrder, text: str | None) -> bool:
    evacuation = order.kind is control.PlacementKind.EVACUATE
    return text == order.where if evacuation else text == order.item


def _ends(order: control.PlacementOrder) -> str:
    """The command that withdraws it, as a shell takes it."""
    item = order.where if order.kind is control.PlacementKind.EVACUATE else order.item
    return f"'bellwether unpin {order.target} {'--all' if item == EVERYTHING else item}'"


def _now_ms() -> int:
    return int(time.time() * 1000)


def _owner() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _document(order: control.Order | control.PlacementOrder) -> dict[str, Any]:
    return {**asdict(order), "kind": order.kind.value, "sentence": order.sentence}


def _duration_ms(text: str) -> int:
    hit = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if hit is None or not int(hit[1]):
        fail(f"--for is '{text}', but must be a number and s, m, h or d, such as 30m.")
    return int(hit[1]) * UNITS_MS[hit[2]]
