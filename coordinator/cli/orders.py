"""The commands that order something of running sidecars: leave, drain, rebalance, pause, pin, ban, evacuate, ...

Each writes one record to the control topic (`orders` says what is in it); WRITE on that topic is the permission. An
order stays in force through restarts and fail-overs until it expires or is withdrawn.
"""

import getpass
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bellwether_kafka.assignors.shared import EVERYTHING
from bellwether_kafka.coordinator.cli.output import As, Output, as_json, fail, tell
from bellwether_kafka.coordinator.control import (
    EVERYBODY,
    Beat,
    Order,
    OrderKind,
    PlacementKind,
    PlacementOrder,
    encode,
    order_key,
)

DEFAULT_TOPIC = "bellwether-control"
READ_S = 10.0
POLL_S = 0.3
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
UNHEARD_MS = 10_000
ONCE_MS = 60_000  # an order that is carried out once and finds nobody to do so is void after this

Group = Annotated[str, typer.Argument(help="The group.")]
Item = Annotated[str, typer.Argument(help='TOPIC-PARTITION, TOPIC, a task such as 1_5, a subtopology, or "*".')]
Where = Annotated[str, typer.Argument(help="rack:NAME or member:ID.")]
Bootstrap = Annotated[str | None, typer.Option(help="bootstrap.servers: host:port, with commas between.")]
Config = Annotated[
    Path | None,
    typer.Option(help="A TOML file; its [kafka] table and control_topic are used.", envvar="BELLWETHER_CONFIG"),
]
Topic = Annotated[str | None, typer.Option(help=f"The control topic, {DEFAULT_TOPIC} unless the file names one.")]
Reason = Annotated[str, typer.Option(help="For the logs of whoever obeys.")]
For = Annotated[str, typer.Option("--for", help="How long it stands: a number and s, m, h or d.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for a sidecar to carry it out.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    for command in (leave, drain, rebalance, pause, resume, pin, ban, unpin, evacuate, orders):
        app.command()(command)


def leave(
    group: Group,
    for_: For = "1h",
    reason: Reason = "",
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Have Bellwether leave a group and stay out of it (for an offset reset, a migration), until resume."""
    to = _connection(bootstrap, config, topic)
    order = _order(OrderKind.LEAVE, group, _duration_ms(for_), reason)
    said = f"Bellwether leaves {group} and stays out for {for_}; 'bellwether resume {group}' ends that."
    _have_stand(order, said, to, output)


def pause(
    group: Group,
    for_: For = "1h",
    reason: Reason = "",
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Have Bellwether begin no rebalance of its own accord; rounds that members begin are answered as ever."""
    to = _connection(bootstrap, config, topic)
    order = _order(OrderKind.PAUSE, group, _duration_ms(for_), reason)
    said = f"Bellwether begins no rebalance in {group} for {for_}; 'bellwether resume {group}' ends that."
    _have_stand(order, said, to, output)


def resume(
    group: Group,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Withdraw what leave and pause have ordered of a group."""
    properties, topic = _connection(bootstrap, config, topic)
    for kind in (OrderKind.LEAVE, OrderKind.PAUSE):
        _withdraw(properties, topic, order_key(kind, group))
    tell(output, f"Orders to leave or pause {group} are withdrawn.", group=group)


def rebalance(
    group: Group,
    reason: Reason = "",
    wait: Wait = 10.0,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Have the leading sidecar begin a rebalance now."""
    to = _connection(bootstrap, config, topic)
    order = _order(OrderKind.REBALANCE, group, ONCE_MS, reason)
    _have_done(order, f"A rebalance of {group} has begun.", to, wait, output)


def drain(
    sidecar: Annotated[str, typer.Argument(help="The sidecar's id; * for whichever leads.")] = EVERYBODY,
    reason: Reason = "",
    wait: Wait = 10.0,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Have a sidecar hand its groups to a standby, without a rebalance."""
    to = _connection(bootstrap, config, topic)
    order = _order(OrderKind.DRAIN, sidecar, ONCE_MS, reason)
    _have_done(order, "A sidecar hands its groups over.", to, wait, output)


def pin(
    group: Group,
    item: Item,
    where: Where,
    for_: For = "1d",
    reason: Reason = "",
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Keep a partition, a topic or a task on one member or in one rack."""
    order = _placement(PlacementKind.PIN, group, item, where, for_, reason)
    said = f"{item} of {group} belongs on {where} for {for_}; 'bellwether unpin {group} {item}' ends that."
    _have_stand(order, said, _connection(bootstrap, config, topic), output)


def ban(
    group: Group,
    item: Item,
    where: Where,
    for_: For = "1d",
    reason: Reason = "",
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Keep a partition, a topic or a task off one member or out of one rack."""
    order = _placement(PlacementKind.BAN, group, item, where, for_, reason)
    said = f"{item} of {group} stays off {where} for {for_}; 'bellwether unpin {group} {item}' ends that."
    _have_stand(order, said, _connection(bootstrap, config, topic), output)


def evacuate(
    group: Group,
    where: Where,
    for_: For = "1h",
    reason: Reason = "",
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Empty a member or a rack before maintenance; tasks with state move when they have caught up elsewhere."""
    order = _placement(PlacementKind.EVACUATE, group, EVERYTHING, where, for_, reason)
    said = f"{where} is emptied of {group} for {for_}; 'bellwether unpin {group} {EVERYTHING}' ends that."
    _have_stand(order, said, _connection(bootstrap, config, topic), output)


def unpin(
    group: Group,
    item: Item,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Withdraw every pin, ban and evacuation of an item; of * those of everything."""
    properties, topic = _connection(bootstrap, config, topic)
    found = [
        record
        for record in _read(properties, topic).values()
        if isinstance(record, PlacementOrder) and (record.target, record.item) == (group, item)
    ]
    if not found:
        fail(f"There is no pin, ban or evacuation of {item} in {group}; see 'bellwether orders'.")
    for order in found:
        _withdraw(properties, topic, order.key)
    said = "\n".join(f"Withdrawn: {order.sentence}." for order in found)
    tell(output, said, withdrawn=[_document(order) for order in found])


def orders(bootstrap: Bootstrap = None, config: Config = None, topic: Topic = None, output: As = Output.TABLE) -> None:
    """List the orders that stand, and the sidecars that have been heard."""
    from datetime import UTC, datetime

    properties, topic = _connection(bootstrap, config, topic)
    now_ms = int(time.time() * 1000)
    records = [record for _, record in sorted(_read(properties, topic).items())]
    beats = [record for record in records if isinstance(record, Beat)]
    stand = [r for r in records if isinstance(r, Order | PlacementOrder) and r.expires_ms > now_ms]
    if output is Output.JSON:
        as_json({"sidecars": [asdict(beat) for beat in beats], "orders": [_document(order) for order in stand]})
        return
    for beat in beats:
        age_s = max(0, now_ms - beat.at_ms) / 1000
        typer.echo(f"sidecar {beat.sidecar}: leads {len(beat.leads)}, last beat {age_s:.0f} s ago")
    for order in stand:
        until = datetime.fromtimestamp(order.expires_ms / 1000, UTC).isoformat(timespec="seconds")
        typer.echo(f"{order.sentence}, until {until}")


def _order(kind: OrderKind, target: str, lasts_ms: int, reason: str) -> Order:
    at_ms = int(time.time() * 1000)
    return Order(kind, target, _owner(), at_ms, at_ms + lasts_ms, reason)


def _placement(kind: PlacementKind, group: str, item: str, where: str, for_: str, reason: str) -> PlacementOrder:
    if not where.startswith(("rack:", "member:")) or where.endswith(":"):
        fail(f"'{where}' names no place; write rack:NAME, or member:ID (a member, client, instance or process id).")
    at_ms = int(time.time() * 1000)
    return PlacementOrder(kind, group, item, where, _owner(), at_ms, at_ms + _duration_ms(for_), reason)


def _owner() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _have_stand(order: Order | PlacementOrder, said: str, to: tuple[dict[str, str], str], output: Output) -> None:
    """Writes an order that is obeyed until it expires, and tells whether anybody is there to obey."""
    properties, topic = to
    _write(properties, topic, order)
    tell(output, said, order=_document(order), heard=_heard(properties, topic, order.target))


def _have_done(order: Order, said: str, to: tuple[dict[str, str], str], wait_s: float, output: Output) -> None:
    """Writes an order that is carried out once, and waits until somebody has taken it."""
    properties, topic = to
    _write(properties, topic, order)
    _await_taken(properties, topic, order_key(order.kind, order.target), wait_s)
    tell(output, said, order=_document(order))


def _document(order: Order | PlacementOrder) -> dict[str, Any]:
    return {**asdict(order), "kind": order.kind.value, "sentence": order.sentence}


def _duration_ms(text: str) -> int:
    hit = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if hit is None or not int(hit[1]):
        fail(f"--for is '{text}', but must be a number and s, m, h or d, such as 30m.")
    return int(hit[1]) * UNITS_MS[hit[2]]


def _write(properties: Mapping[str, str], topic: str, order: Order | PlacementOrder) -> None:
    from bellwether_kafka.coordinator.control import ControlTopicError, ensure_topic, write_now

    try:
        ensure_topic(properties, topic)
        write_now(properties, topic, *encode(order))
    except ControlTopicError as error:
        fail(str(error))


def _withdraw(properties: Mapping[str, str], topic: str, key: str) -> None:
    from bellwether_kafka.coordinator.control import ControlTopicError, write_now

    try:
        write_now(properties, topic, key.encode(), None)
    except ControlTopicError as error:
        fail(str(error))


def _read(properties: Mapping[str, str], topic: str) -> Mapping[str, object]:
    from bellwether_kafka.coordinator.control import ControlTopicError, read_all

    try:
        return read_all(properties, topic, READ_S)
    except ControlTopicError as error:
        fail(str(error))


def _heard(properties: Mapping[str, str], topic: str, group: str) -> bool:
    """Whether anybody looks after the group. An order that nobody hears looks like one that is obeyed, so we say so."""
    since_ms = int(time.time() * 1000) - UNHEARD_MS
    beats = [r for r in _read(properties, topic).values() if isinstance(r, Beat) and r.at_ms >= since_ms]
    if any(group in (*beat.leads, *beat.claims, *beat.stands_by) for beat in beats):
        return True
    typer.echo(
        f"But no sidecar that looks after {group} has been heard in the control topic '{topic}' for"
        f" {UNHEARD_MS // 1000} s; check control_topic in its settings.",
        err=True,
    )
    return False


def _await_taken(properties: Mapping[str, str], topic: str, key: str, wait_s: float) -> None:
    """Whoever carries a single order out withdraws it."""
    limit = time.monotonic() + wait_s
    while key in _read(properties, topic):
        if time.monotonic() >= limit:
            fail(
                f"No sidecar has taken the order within {wait_s:.0f} s; it is void after {ONCE_MS // 1000} s. See"
                f" 'bellwether orders' for who listens to the control topic '{topic}'."
            )
        time.sleep(POLL_S)


def _connection(bootstrap: str | None, config: Path | None, topic: str | None) -> tuple[dict[str, str], str]:
    """Librdkafka's properties and the control topic."""
    from bellwether_kafka.coordinator.kafka import (
        ClientConfigError,
        check_kerberos,
        client_config,
        librdkafka_properties,
    )
    from bellwether_kafka.coordinator.settings import SettingsError, load

    given = {"kafka": {"bootstrap.servers": bootstrap}} if bootstrap else {}
    try:
        settings = load(config, given | ({} if config else {"groups": [{"name": "none"}]}))
        check_kerberos(client_config(settings.properties))
        properties = librdkafka_properties(settings.properties)
    except (SettingsError, ClientConfigError) as error:
        fail(str(error))
    return properties, topic or settings.control_topic or DEFAULT_TOPIC
