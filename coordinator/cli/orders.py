"""The commands that order something of running sidecars: leave, drain, rebalance, pause, pin, ban, evacuate, ...

Each writes one record to the control topic (`control.records` says what is in it); WRITE on that topic is the
permission. An order stays in force through restarts and fail-overs until it expires or is withdrawn.
"""

import functools
import getpass
import inspect
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from bellwether_kafka.assignors.shared import EVERYTHING
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Group, settings_without_group
from bellwether_kafka.coordinator.cli.output import As, Output, as_json, fail, tell
from bellwether_kafka.coordinator.kafka import librdkafka_properties

DEFAULT_TOPIC = "bellwether-control"
READ_S = 10.0
POLL_S = 0.3
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
UNHEARD_MS = 10_000
ONCE_MS = 60_000  # an order that is carried out once and finds nobody to do so is void after this

ItemName = Annotated[str, typer.Argument(help='TOPIC-PARTITION, TOPIC, a task such as 1_5, a subtopology, or "*".')]
Where = Annotated[str, typer.Argument(help="rack:NAME or member:ID.")]
Topic = Annotated[str | None, typer.Option(help=f"The control topic, {DEFAULT_TOPIC} unless the file names one.")]
Reason = Annotated[str, typer.Option(help="For the logs of whoever obeys.")]
For = Annotated[str, typer.Option("--for", help="How long it stands: a number and s, m, h or d.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for a sidecar to carry it out.")]


@dataclass(frozen=True, slots=True)
class OrdersTopic:
    """The topic that a command writes to, and how the command prints. All methods raise ControlTopicError."""

    properties: Mapping[str, Any]
    name: str
    output: Output

    def order(self, order: control.Order | control.PlacementOrder, sentence: str) -> None:
        """Writes an order that is obeyed until it expires, and says whether any sidecar is there to obey."""
        self._write(order)
        tell(self.output, sentence, order=_document(order), heard=self._is_heard(order.target))

    def order_once(self, order: control.Order, sentence: str, wait_s: float) -> None:
        """Writes an order that is carried out once, and waits until a sidecar has taken it."""
        self._write(order)
        limit = time.monotonic() + wait_s
        while order.key in self.read():  # the sidecar that carries it out withdraws it
            if time.monotonic() >= limit:
                fail(
                    f"No sidecar has taken the order within {wait_s:.0f} s; it is void after {ONCE_MS // 1000} s. See"
                    f" 'bellwether orders' for who listens to the control topic '{self.name}'."
                )
            time.sleep(POLL_S)
        tell(self.output, sentence, order=_document(order))

    def withdraw(self, key: str) -> None:
        control.write_now(self.properties, self.name, key.encode(), None)

    def read(self) -> Mapping[str, object]:
        return control.read_all(self.properties, self.name, READ_S)

    def _write(self, order: control.Order | control.PlacementOrder) -> None:
        control.ensure_topic(self.properties, self.name)
        control.write_now(self.properties, self.name, *control.encode(order))

    def _is_heard(self, group: str) -> bool:
        """Whether a sidecar looks after the group. An order that nobody hears looks like one that is obeyed."""
        since_ms = _now_ms() - UNHEARD_MS
        beats = [r for r in self.read().values() if isinstance(r, control.Beat) and r.at_ms >= since_ms]
        if any(group in (*beat.leads, *beat.claims, *beat.stands_by) for beat in beats):
            return True
        typer.echo(
            f"But no sidecar that looks after {group} has been heard in the control topic '{self.name}' for"
            f" {UNHEARD_MS // 1000} s; check control_topic in its settings.",
            err=True,
        )
        return False


def with_topic(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that lead to the control topic, behind its own; it gets the topic that they name. An
    error of the topic ends the process."""

    def options(
        bootstrap: Bootstrap = None, config: Config = None, topic: Topic = None, output: As = Output.TABLE
    ) -> OrdersTopic:
        settings = settings_without_group(bootstrap, config)
        name = topic or settings.control_topic or DEFAULT_TOPIC
        return OrdersTopic(librdkafka_properties(settings.properties), name, output)

    shared = inspect.signature(options).parameters
    own = list(inspect.signature(command).parameters.values())[1:]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        to = options(**{name: given.pop(name) for name in shared})
        try:
            command(to, **given)
        except control.ControlTopicError as error:
            fail(str(error))

    with_options.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]
    return with_options


@with_topic
def leave(to: OrdersTopic, group: Group, for_: For = "1h", reason: Reason = "") -> None:
    order = _order(control.OrderKind.LEAVE, group, _duration_ms(for_), reason)
    to.order(order, f"Bellwether leaves {group} and stays out for {for_}; 'bellwether resume {group}' ends that.")


@with_topic
def pause(to: OrdersTopic, group: Group, for_: For = "1h", reason: Reason = "") -> None:
    order = _order(control.OrderKind.PAUSE, group, _duration_ms(for_), reason)
    to.order(order, f"Bellwether begins no rebalance in {group} for {for_}; 'bellwether resume {group}' ends that.")


@with_topic
def resume(to: OrdersTopic, group: Group) -> None:
    for kind in (control.OrderKind.LEAVE, control.OrderKind.PAUSE):
        to.withdraw(control.order_key(kind, group))
    tell(to.output, f"Orders to leave or pause {group} are withdrawn.", group=group)


@with_topic
def rebalance(to: OrdersTopic, group: Group, reason: Reason = "", wait: Wait = 10.0) -> None:
    order = _order(control.OrderKind.REBALANCE, group, ONCE_MS, reason)
    to.order_once(order, f"A rebalance of {group} has begun.", wait)


@with_topic
def drain(
    to: OrdersTopic,
    sidecar: Annotated[str, typer.Argument(help="The sidecar's id; * for whichever leads.")] = control.EVERYBODY,
    reason: Reason = "",
    wait: Wait = 10.0,
) -> None:
    order = _order(control.OrderKind.DRAIN, sidecar, ONCE_MS, reason)
    to.order_once(order, "A sidecar hands its groups over.", wait)


@with_topic
def pin(to: OrdersTopic, group: Group, item: ItemName, where: Where, for_: For = "1d", reason: Reason = "") -> None:
    order = _placement(control.PlacementKind.PIN, group, item, where, for_, reason)
    to.order(order, f"{item} of {group} belongs on {where} for {for_}; 'bellwether unpin {group} {item}' ends that.")


@with_topic
def ban(to: OrdersTopic, group: Group, item: ItemName, where: Where, for_: For = "1d", reason: Reason = "") -> None:
    order = _placement(control.PlacementKind.BAN, group, item, where, for_, reason)
    to.order(order, f"{item} of {group} stays off {where} for {for_}; 'bellwether unpin {group} {item}' ends that.")


@with_topic
def evacuate(to: OrdersTopic, group: Group, where: Where, for_: For = "1h", reason: Reason = "") -> None:
    order = _placement(control.PlacementKind.EVACUATE, group, EVERYTHING, where, for_, reason)
    to.order(order, f"{where} is emptied of {group} for {for_}; 'bellwether unpin {group} {EVERYTHING}' ends that.")


@with_topic
def unpin(to: OrdersTopic, group: Group, item: ItemName) -> None:
    placed = [record for record in to.read().values() if isinstance(record, control.PlacementOrder)]
    found = [order for order in placed if (order.target, order.item) == (group, item)]
    if not found:
        fail(f"There is no pin, ban or evacuation of {item} in {group}; see 'bellwether orders'.")
    for order in found:
        to.withdraw(order.key)
    sentences = "\n".join(f"Withdrawn: {order.sentence}." for order in found)
    tell(to.output, sentences, withdrawn=[_document(order) for order in found])


@with_topic
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


def _placement(
    kind: control.PlacementKind, group: str, item: str, where: str, for_: str, reason: str
) -> control.PlacementOrder:
    if not where.startswith(("rack:", "member:")) or where.endswith(":"):
        fail(f"'{where}' names no place; write rack:NAME, or member:ID (a member, client, instance or process id).")
    at_ms = _now_ms()
    return control.PlacementOrder(kind, group, item, where, _owner(), at_ms, at_ms + _duration_ms(for_), reason)


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
