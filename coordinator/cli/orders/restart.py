"""The commands for restarts of members: `ready` checks that one has its share again, `roll` restarts all, and `stopped`
announces that the process of one has ended, so that an instance that is to lead the group joins it before the member is
removed."""

import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from bellwether_kafka.assignors.shared import EVERYTHING
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Group, Topic, Wait
from bellwether_kafka.coordinator.cli.orders.service import (
    Force,
    OrderService,
    Place,
    Reason,
    now_ms,
    order_service,
    owner,
)
from bellwether_kafka.coordinator.cli.output import As, Exit, Output, echo, fail, print_document, print_result
from bellwether_kafka.coordinator.cli.read_groups import AT_MEMBER, REFRESH_S
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, full_ids
from bellwether_kafka.protocol.messages import process_in_client_id

MEMBER = "{member}"
# The order lasts longer than all its waits together, so that a member gets nothing back during its restart.
SPARE_S = 60.0
STATED_MS = 60_000  # by then the process may be back
STANDARD_ERROR = 2  # for the command's output, which must not mix with Bellwether's document
Command = Annotated[
    str,
    typer.Option("--exec", help="What restarts one member and returns when it has; {member} is replaced by its id."),
]
Only = Annotated[list[str] | None, typer.Option("--member", help="Only this member, by its id; may be repeated.")]


@dataclass(frozen=True, slots=True)
class Restarted:
    """The restart of one member: seconds to evacuate it, to restart it, and until it had its share again."""

    member: str
    evacuated_s: float
    restarted_s: float
    back_s: float


def ready(
    group: Group,
    where: Place,
    wait: Wait = 0.0,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    to = order_service(bootstrap, config, topic, output, retry_s=wait)
    if not where.startswith(AT_MEMBER):
        fail(f"'{where}' names no member; write member:ID (a member, client, instance or process id).")
    where = to.in_full(group, where)
    missing = _until_ready(to, group, where, wait)
    print_result(
        to.output, missing or f"{where} has its share of {group}, and its state has caught up.", ready=not missing
    )
    if missing:
        raise typer.Exit(Exit.NOT_SO)


def roll(
    group: Group,
    exec_: Command,
    member: Only = None,
    wait: Wait = 600.0,
    reason: Reason = "",
    force: Force = False,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    to = order_service(bootstrap, config, topic, output, retry_s=wait)
    try:
        command = shlex.split(exec_)
    except ValueError as error:
        fail(f"--exec cannot be read as a shell reads it: {str(error).lower()}.")
    if not any(MEMBER in word for word in command):
        fail(f"--exec has no place for the member's id; write {MEMBER}, as in 'systemctl restart app@{MEMBER}'.")
    chosen = names_of(to.at_rest(group, wait), member)
    acting = [name for name in chosen if for_shell(name) != name or name.startswith("-")]
    if acting and not force:
        fail(
            f"A shell would act on the name {', '.join(acting)}, which a client has chosen, where the command hands it"
            " to one. Name the others with --member, or give --force."
        )
    done: list[Restarted] = []
    for number, name in enumerate(chosen, 1):
        _echo(f"[{number}/{len(chosen)}] {name}")
        restarted = _restart(to, group, name, command, wait, reason, force=force)
        done.append(restarted)
        if not to.output.is_document:  # at once, since the next one may end it
            steps = f"empty after {restarted.evacuated_s:.1f} s, restarted in {restarted.restarted_s:.1f} s"
            echo(f"{restarted.member}: {steps}, its share back {restarted.back_s:.1f} s later")
    if to.output.is_document:
        print_document({"group": group, "members": [asdict(each) for each in done]})


def names_of(seen: Observation, named: Sequence[str] | None) -> list[str]:
    """Returns the ids by which members are known before and after a restart: process ids, instance ids, or unique
    client ids. Ends the process if a member has none, or if a member in `named` is not in the group."""
    if seen.shadow is None:
        fail(f"Nothing can be restarted in {seen.group_id}: {seen.no_plan}.")
    plan = seen.shadow.decision.plan
    if plan.words.owner == "process":
        name_of = {owner.name: owner.name for owner in plan.owners}
    else:
        clients = [member.client_id for member in seen.members]
        name_of = {
            member.member_id: member.instance_id or (member.client_id if clients.count(member.client_id) == 1 else "")
            for member in seen.members
        }
    nameless = [member_id for member_id, name in name_of.items() if not name]
    if nameless:
        remedy = "give each member a client.id of its own, or a group.instance.id"
        fail(f"{nameless[0]} cannot be recognised when it is back, since others have its client id; {remedy}.")
    unknown = sorted(set(named or ()) - set(name_of.values()))
    if unknown:
        fail(f"There is no member {unknown[0]} in {seen.group_id}; members are {', '.join(sorted(name_of.values()))}.")
    return sorted(set(name_of.values()) if not named else set(named))


def _restart(
    to: OrderService, group: str, name: str, command: Sequence[str], wait_s: float, reason: str, *, force: bool
) -> Restarted:
    where, began, at_ms = f"member:{name}", time.monotonic(), now_ms()
    expires_ms = at_ms + int((3 * wait_s + SPARE_S) * 1000)
    kind, until = control.OrderKind.EVACUATE, control.Until.BACK
    why = reason or "a rolling restart"
    order = control.PlacementOrder(kind, group, EVERYTHING, where, owner(), at_ms, expires_ms, why, until=until)
    quiet = replace(to, output=Output.TABLE)
    with _withdrawn_unless_done(to, order):
        quiet.give(order, "", wait_s=wait_s, force=force)
        empty = time.monotonic()
        _run([word.replace(MEMBER, name) for word in command], name)
    restarted = time.monotonic()
    missing = _until_ready(to, group, where, wait_s)
    if missing:
        _echo(f"It is not back within {wait_s:g} s: {missing} The others are left alone.")
        raise typer.Exit(Exit.NOT_SO)
    return Restarted(name, empty - began, restarted - empty, time.monotonic() - restarted)


def _run(words: Sequence[str], name: str) -> None:
    """Runs the command that restarts the member. Ends the process unless it succeeds."""
    try:
        process = subprocess.Popen(words, stdout=STANDARD_ERROR)  # noqa: S603 - the operator's own command
    except OSError as error:
        fail(f"{words[0]} cannot be run: {error.strerror}; {name} is empty and has not been restarted.")
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.wait()  # one that is ended between stop and start would leave the member down
        raise
    if code:
        fail(f"'{' '.join(map(for_shell, words))}' has ended with {code}; its tasks may go back to {name}.")


@contextmanager
def _withdrawn_unless_done(to: OrderService, order: control.PlacementOrder) -> Iterator[None]:
    """Withdraws the order if the block ends by an error, Ctrl-C, or the signals of a cancelled job or a closed
    terminal: a member that nobody restarts would be without work until the order expires."""
    try:
        with _signals_as_ctrl_c():
            yield
    except BaseException:
        with suppress(typer.Exit):  # the first error counts
            _withdraw(to, order)
        raise


@contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt in the block, unless they are ignored, as under nohup."""
    in_main = threading.current_thread() is threading.main_thread()  # only there handlers can be set
    ending = [n for n in (signal.SIGTERM, signal.SIGHUP) if in_main and signal.getsignal(n) is signal.SIG_DFL]
    for number in ending:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)


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


def stopped(
    group: Group,
    where: Place,
    reason: Reason = "",
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    """Writes the announcement. Its effect shows in the log and in the role of the group."""
    to = order_service(bootstrap, config, topic, output)
    if not where.startswith(AT_MEMBER):
        fail(f"'{where}' names no member; write member:ID (a member, client, instance or process id).")
    at_ms = now_ms()
    if not control.lead_is_wanted(group, to.read(), at_ms):
        fail(
            f"No Bellwether has reported that it is to lead '{group}' and does not; nothing was stated. Where it leads,"
            f" use 'bellwether evacuate {for_shell(group)} {for_shell(where)}' before the stop."
        )
    members = members_of(to.placed(group).seen(), where.removeprefix(AT_MEMBER))
    if not members:
        fail(f"No member of {group} is called {where}; see 'bellwether describe {for_shell(group)} -o wide'.")
    static = tuple(m.member_id for m in members if m.instance_id is not None)
    dynamic = tuple(m.member_id for m in members if m.instance_id is None)
    record = control.Stopped(group, dynamic, static, owner(), at_ms, at_ms + STATED_MS, reason)
    to.write(record)
    sentence = f"It is stated that {where} has stopped: {len(members)} members of {group}."
    print_result(to.output, sentence, stopped=asdict(record))


def members_of(seen: Observation, name: str) -> tuple[ObservedMember, ...]:
    """Returns all members of the process with this name, in full or in short; empty if none or several fit."""
    exact = tuple(m for m in seen.members if name in _names(m))
    if exact:
        return exact
    ids = full_ids(seen, name)
    return tuple(m for m in seen.members if m.member_id in ids) if len(ids) == 1 else ()


def _names(member: ObservedMember) -> tuple[str | None, ...]:
    return (member.member_id, member.instance_id, member.client_id, process_in_client_id(member.client_id))
