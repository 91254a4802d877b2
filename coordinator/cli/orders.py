"""The commands that give orders to running instances: leave, drain, rebalance, pause, pin, ban, evacuate, roll, ...

Each writes one record to the control topic (`control.records` has its fields); WRITE on that topic is the permission.
An order stays in force through restarts and fail-overs until it expires or is withdrawn. An order that could not be
carried out is not written: the topic shows which instances read it (`control.checks`), the group shows what can be
placed (`refresh.PlannedPlacement`).
"""

import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from bellwether_kafka.assignors.shared import EVERYTHING
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import Group
from bellwether_kafka.coordinator.cli.ordering import (
    REFRESH_S,
    AnyOrder,
    DryRun,
    For,
    Force,
    ItemName,
    OrderService,
    OrderTerms,
    Reason,
    Remove,
    Wait,
    Where,
    document,
    now_ms,
    owner,
    with_terms,
    with_topic,
    with_topic_or_locally,
)
from bellwether_kafka.coordinator.cli.output import Exit, Output, echo, fail, print_document, print_result
from bellwether_kafka.coordinator.cli.refresh import AT_MEMBER
from bellwether_kafka.coordinator.membership import CLIENT_ID
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Observation

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SOONER = {control.Until.BACK: "until it is back, at most ", control.Until.REMOVED: "until it is removed, at most "}
ONCE_MS = 60_000  # an order that is carried out once expires after this time
TO_RESUME = (control.OrderKind.LEAVE, control.OrderKind.RELEASE, control.OrderKind.PAUSE)
MEMBER = "{member}"
# The order lasts longer than all its waits together, so that a member gets nothing back during its restart.
SPARE_S = 60.0
STANDARD_ERROR = 2  # for the command's output, which must not mix with Bellwether's document

Place = Annotated[str, typer.Argument(metavar="WHERE", help="member:ID.")]
ReadyWait = Annotated[float, typer.Option(help="Seconds to wait until it is ready; exits 4 if it is not by then.")]
Command = Annotated[
    str,
    typer.Option("--exec", help="What restarts one member and returns when it has; {member} is replaced by its id."),
]
RollWait = Annotated[
    float, typer.Option(help="Seconds that each step may take: until a member is empty, and until it has its share.")
]
Only = Annotated[list[str] | None, typer.Option("--member", help="Only this member, by its id; may be repeated.")]


@dataclass(frozen=True, slots=True)
class Restarted:
    """The restart of one member: seconds to evacuate it, to restart it, and until it had its share again."""

    member: str
    evacuated_s: float
    restarted_s: float
    back_s: float


@with_topic_or_locally
def leave(
    to: OrderService, group: Group, for_: For = "1h", reason: Reason = "", wait: Wait = 0.0, force: Force = False
) -> None:
    order = _order(control.OrderKind.LEAVE, group, _duration_ms(for_), reason)
    sentence = f"Bellwether leaves {group} and stays out for {for_}; 'bellwether resume {for_shell(group)}' ends that."
    to.give(order, sentence, wait_s=wait, force=force)


@with_topic_or_locally
def pause(
    to: OrderService, group: Group, for_: For = "1h", reason: Reason = "", wait: Wait = 0.0, force: Force = False
) -> None:
    order = _order(control.OrderKind.PAUSE, group, _duration_ms(for_), reason)
    sentence = (
        f"Bellwether begins no rebalance in {group} for {for_}. 'bellwether resume {for_shell(group)}' ends that."
    )
    to.give(order, sentence, wait_s=wait, force=force)


@with_topic_or_locally
def release(to: OrderService, group: Group, reason: Reason = "", wait: Wait = 0.0, force: Force = False) -> None:
    if not force:
        _has_stopped(to, group, wait)
    order = replace(_order(control.OrderKind.RELEASE, group, 0, reason), expires_ms=control.NO_END_MS)
    sentence = (
        f"Bellwether leaves {group} and stays out until members join it; they start under a leader of their own."
        f" 'bellwether resume {for_shell(group)}' before that has Bellwether in it first."
    )
    to.give(order, sentence, wait_s=wait, force=force)


@with_topic_or_locally
def resume(to: OrderService, group: Group) -> None:
    records = to.read()
    keys = [control.order_key(kind, group) for kind in TO_RESUME]
    found = [key for key in keys if key in records]
    if not found:
        fail(f"There is no order to leave or pause {group}, or to release it; see 'bellwether orders'.")
    for key in found:
        to.withdraw(key)
    print_result(to.output, f"Orders to leave or pause {group}, or to release it, are withdrawn.", group=group)


@with_topic_or_locally
def rebalance(
    to: OrderService,
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
    to: OrderService,
    instance: Annotated[
        str,
        typer.Argument(
            help="The id of the instance of Bellwether; without one, the one that leads.", show_default=False
        ),
    ] = control.EVERYBODY,
    reason: Reason = "",
    wait: Wait = 10.0,
    force: Force = False,
) -> None:
    order = _order(control.OrderKind.DRAIN, instance, ONCE_MS, reason)
    to.give(order, "An instance of Bellwether hands its groups over.", wait_s=wait, force=force)


@with_topic
@with_terms("1d")
def pin(to: OrderService, terms: OrderTerms, group: Group, item: ItemName, where: Where) -> None:
    order = _placement(to, control.PlacementKind.PIN, group, item, where, terms)
    _place(to, order, terms, f"{item} of {group} belongs on {order.where}")


@with_topic
@with_terms("1d")
def ban(to: OrderService, terms: OrderTerms, group: Group, item: ItemName, where: Where) -> None:
    order = _placement(to, control.PlacementKind.BAN, group, item, where, terms)
    _place(to, order, terms, f"{item} of {group} stays off {order.where}")


@with_topic
@with_terms("1h")
def evacuate(to: OrderService, terms: OrderTerms, group: Group, where: Where, remove: Remove = False) -> None:
    order = _placement(to, control.PlacementKind.EVACUATE, group, EVERYTHING, where, terms)
    where = order.where
    if remove and not terms.dry_run and _has_gone(to, order):
        print_result(to.output, f"{where} is not in {group} any more.", order=document(order), in_effect=True)
    elif where.startswith(AT_MEMBER):
        order = replace(order, until=control.Until.REMOVED if remove else control.Until.BACK)
        outcome = "removed from" if remove else "empty until it is back in"
        sentence = f"{where} is to be {outcome} {group}, for {terms.for_} at most; {_ends(order)} ends that."
        to.give(order, sentence, **terms.asked)
    elif remove:
        fail(f"Only members can be removed from a group, and '{where}' is none; write member:ID.")
    else:
        _place(to, order, terms, f"{where} is to be empty of {group}")


@with_topic
def ready(to: OrderService, group: Group, where: Place, wait: ReadyWait = 0.0) -> None:
    if not where.startswith(AT_MEMBER):
        fail(f"'{where}' names no member; write member:ID (a member, client, instance or process id).")
    where = to.in_full(group, where)
    missing = _until_ready(to, group, where, wait)
    print_result(
        to.output, missing or f"{where} has its share of {group}, and its state has caught up.", ready=not missing
    )
    if missing:
        raise typer.Exit(Exit.DIFFERS)


@with_topic
def roll(
    to: OrderService,
    group: Group,
    exec_: Command,
    member: Only = None,
    wait: RollWait = 600.0,
    reason: Reason = "",
    force: Force = False,
) -> None:
    try:
        command = shlex.split(exec_)
    except ValueError as error:
        fail(f"--exec cannot be read as a shell reads it: {str(error).lower()}.")
    if not any(MEMBER in word for word in command):
        fail(f"--exec has no place for the member's id; write {MEMBER}, as in 'systemctl restart app@{MEMBER}'.")
    chosen = members_of(to.at_rest(group, wait), member)
    acting = [name for name in chosen if for_shell(name) != name or name.startswith("-")]
    if acting and not force:
        fail(
            f"A shell would act on the name {', '.join(acting)}, which a client has chosen, where the command hands it"
            " to one. Name the others with --member, or give --force."
        )
    done: list[Restarted] = []
    for number, name in enumerate(chosen, 1):
        _echo(f"[{number}/{len(chosen)}] {name}")
        one = _restart(to, group, name, command, wait, reason, force=force)
        done.append(one)
        if not to.output.is_document:  # at once, since the next one may end it
            steps = f"empty after {one.evacuated_s:.1f} s, restarted in {one.restarted_s:.1f} s"
            echo(f"{one.member}: {steps}, its share back {one.back_s:.1f} s later")
    if to.output.is_document:
        print_document({"group": group, "members": [asdict(one) for one in done]}, to.output)


@with_topic
def unpin(
    to: OrderService,
    group: Group,
    item: Annotated[
        str | None, typer.Argument(help="An item as it was ordered, or the rack:NAME or member:ID of an evacuation.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Withdraw all of the group.")] = False,
) -> None:
    if (item is None) != everything:
        fail("Name an item or a place, or give --all.")
    placed = [record for record in to.read().values() if isinstance(record, control.PlacementOrder)]
    found = [o for o in placed if o.target == group and (everything or item == EVERYTHING or _is_named(o, item))]
    found = found or _named_in_short(placed, group, item or "")
    if not found:
        what = "pin, ban or evacuation" if everything else f"pin, ban or evacuation of {item}"
        fail(f"There is no {what} in {group}; see 'bellwether orders'.")
    for order in found:
        to.withdraw(order.key)
    sentences = [f"Withdrawn: {order.sentence}." for order in found]
    if to.output.is_document:
        print_result(to.output, "\n".join(sentences), withdrawn=[document(order) for order in found])
        return
    for sentence in sentences:
        echo(sentence)


@with_topic_or_locally
def orders(to: OrderService) -> None:
    at_ms, found = now_ms(), to.read()
    records = [record for _, record in sorted(found.items())]
    heartbeats = [record for record in records if isinstance(record, control.InstanceHeartbeat)]
    in_force = [r for r in records if isinstance(r, control.Order | control.PlacementOrder) and r.expires_ms > at_ms]
    if to.output.is_document:
        listed = [{**document(order), "absence": _stage(order, found)} for order in in_force]
        print_document({"instances": [asdict(heartbeat) for heartbeat in heartbeats], "orders": listed}, to.output)
        return
    if not heartbeats and not in_force:
        echo("No order is in force, and no instance of Bellwether has reported.", err=True)
    for heartbeat in heartbeats:
        age_s = max(0, at_ms - heartbeat.at_ms) / 1000
        echo(f"instance of Bellwether {heartbeat.instance}: leads {len(heartbeat.leads)}, heard {age_s:.0f} s ago")
    for order in in_force:
        stage = _stage(order, found)
        echo(f"{order.sentence}, {_sooner(order)}{_end(order)}{f'; it is {stage} now' if stage else ''}")


def _end(order: AnyOrder) -> str:
    if order.expires_ms >= control.NO_END_MS:
        return "until members join"
    return f"until {datetime.fromtimestamp(order.expires_ms / 1000, UTC).isoformat(timespec='seconds')}"


def _has_stopped(to: OrderService, group: str, wait_s: float) -> None:
    """Ends the process if the group has members, because only an empty group can be released."""
    found = to.at_rest(group, wait_s).members
    members = sum(bool(one.owned) or one.client_id != CLIENT_ID for one in found)
    if members:
        are = "members are" if members > 1 else "member is"
        fail(
            f"{members} {are} in {group}; stop the application first, or use 'bellwether leave {for_shell(group)}'."
            " Nothing was ordered; --force orders it all the same."
        )


def _sooner(order: AnyOrder) -> str:
    """Returns what ends the order before it expires, as a part of a sentence."""
    until = order.until if isinstance(order, control.PlacementOrder) else control.Until.EXPIRY
    return SOONER.get(until, "")


def _stage(order: AnyOrder, records: Mapping[str, control.Record]) -> str | None:
    absence = control.absence_of(records, order) if isinstance(order, control.PlacementOrder) else None
    return absence.stage.value if absence is not None else None


def _order(kind: control.OrderKind, target: str, lasts_ms: int, reason: str) -> control.Order:
    at_ms = now_ms()
    return control.Order(kind, target, owner(), at_ms, at_ms + lasts_ms, reason)


def _placement(
    to: OrderService, kind: control.PlacementKind, group: str, item: str, where: str, terms: OrderTerms
) -> control.PlacementOrder:
    if not where.startswith(("rack:", AT_MEMBER)) or where.endswith(":"):
        fail(f"'{where}' names no place; write rack:NAME, or member:ID (a member, client, instance or process id).")
    lasts_ms = _duration_ms(terms.for_)
    place = to.in_full(group, where) if where.startswith(AT_MEMBER) else where
    at_ms = now_ms()
    expires_ms = at_ms + lasts_ms
    return control.PlacementOrder(kind, group, item, place, owner(), at_ms, expires_ms, terms.reason)


def _has_gone(to: OrderService, order: control.PlacementOrder) -> bool:
    """Returns whether the leader has seen an evacuated member leave the group; if so, withdraws the order on it."""
    records = to.read()
    in_force = records.get(order.key)
    absence = control.absence_of(records, in_force) if isinstance(in_force, control.PlacementOrder) else None
    if absence is None or absence.stage is not control.Stage.AWAY:
        return False
    to.withdraw(order.key)
    return True


def _place(to: OrderService, order: control.PlacementOrder, terms: OrderTerms, outcome: str) -> None:
    to.give(order, f"{outcome} for {terms.for_}; {_ends(order)} ends that.", **terms.asked)


def _is_named(order: control.PlacementOrder, text: str | None) -> bool:
    evacuation = order.kind is control.PlacementKind.EVACUATE
    return text == order.where if evacuation else text == order.item


def _named_in_short(placed: Sequence[control.PlacementOrder], group: str, text: str) -> list[control.PlacementOrder]:
    """Returns the evacuation of the member whose id begins with this text."""
    if not text.startswith(AT_MEMBER) or text == AT_MEMBER:
        return []
    evacuations = [o for o in placed if o.target == group and o.kind is control.PlacementKind.EVACUATE]
    found = [order for order in evacuations if order.where.startswith(text)]
    if len(found) > 1:
        fail(f"{text} may be {', '.join(order.where for order in found)}; write more of the id.")
    return found


def _ends(order: control.PlacementOrder) -> str:
    """Returns the shell command that withdraws the order."""
    item = order.where if order.kind is control.PlacementKind.EVACUATE else order.item
    return f"'bellwether unpin {for_shell(order.target)} {'--all' if item == EVERYTHING else for_shell(item)}'"


def _duration_ms(text: str) -> int:
    hit = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if hit is None or not int(hit[1]):
        fail(f"--for is '{text}', but must be a number and s, m, h or d, such as 30m.")
    return int(hit[1]) * UNITS_MS[hit[2]]


def members_of(seen: Observation, named: Sequence[str] | None) -> list[str]:
    """Returns the ids by which members are known before and after a restart: process ids, instance ids, or unique
    client ids. Ends the process if a member has none, or if a member in `named` is not in the group."""
    if seen.shadow is None:
        fail(f"Nothing can be restarted in {seen.group_id}: {seen.trouble or seen.obstacle or 'it has no members'}.")
    plan = seen.shadow.decision.plan
    if plan.words.owner == "process":
        found = {one.name: one.name for one in plan.owners}
    else:
        clients = [one.client_id for one in seen.members]
        found = {
            one.member_id: one.instance_id or (one.client_id if clients.count(one.client_id) == 1 else "")
            for one in seen.members
        }
    nameless = [member_id for member_id, name in found.items() if not name]
    if nameless:
        remedy = "give each member a client.id of its own, or a group.instance.id"
        fail(f"{nameless[0]} cannot be recognised when it is back, since others have its client id; {remedy}.")
    unknown = sorted(set(named or ()) - set(found.values()))
    if unknown:
        fail(f"There is no member {unknown[0]} in {seen.group_id}; members are {', '.join(sorted(found.values()))}.")
    return sorted(set(found.values()) if not named else set(named))


def _restart(
    to: OrderService, group: str, name: str, command: Sequence[str], wait_s: float, reason: str, *, force: bool
) -> Restarted:
    where, began, at_ms = f"member:{name}", time.monotonic(), now_ms()
    expires_ms = at_ms + int((3 * wait_s + SPARE_S) * 1000)
    kind, until = control.PlacementKind.EVACUATE, control.Until.BACK
    why = reason or "a rolling restart"
    order = control.PlacementOrder(kind, group, EVERYTHING, where, owner(), at_ms, expires_ms, why, until=until)
    quiet = replace(to, output=Output.TABLE)
    try:
        quiet.give(order, "", wait_s=wait_s, force=force)
    except typer.Exit:
        _withdraw(to, order)
        raise
    empty = time.monotonic()
    words = [word.replace(MEMBER, name) for word in command]
    try:
        ended = subprocess.run(words, stdout=STANDARD_ERROR, check=False)  # noqa: S603 - the operator's own command
    except OSError as error:
        _withdraw(to, order)
        fail(f"{words[0]} cannot be run: {error.strerror}; {name} is empty and has not been restarted.")
    if ended.returncode:
        _withdraw(to, order)
        fail(f"'{' '.join(map(for_shell, words))}' has ended with {ended.returncode}; its tasks may go back to {name}.")
    restarted = time.monotonic()
    missing = _until_ready(to, group, where, wait_s)
    if missing:
        _echo(f"It is not back within {wait_s:g} s: {missing} The others are left alone.")
        raise typer.Exit(Exit.UNEXPECTED)
    return Restarted(name, empty - began, restarted - empty, time.monotonic() - restarted)


def _until_ready(to: OrderService, group: str, where: str, wait_s: float) -> str:
    """Returns what is missing after `wait_s`, or "" as soon as nothing is. Prints changes meanwhile."""
    began, last = time.monotonic(), ""
    while True:
        missing = to.placed(group).unready(where)
        if not missing or time.monotonic() - began >= wait_s:
            return missing
        if missing != last:
            _echo(missing)
            last = missing
        time.sleep(REFRESH_S)


def _withdraw(to: OrderService, order: control.PlacementOrder) -> None:
    if to.read().get(order.key) == order:
        to.withdraw(order.key)


def _echo(sentence: str) -> None:
    echo(sentence, err=True)
