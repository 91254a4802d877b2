"""Finds the members of a group that belong to one process, from DescribeGroups answers while that process lived. Pure.

Two properties identify the members of a process:

process id  Kafka Streams puts it into a thread's client id (`<application id>-<process id>-StreamThread-<n>-consumer`)
            and into its subscription. The guard reads it from a state directory while the process holds the directory's
            lock, so no other process has it, unless the directory was copied. A copy shows by members from several
            hosts, or by two threads of one name and process id in one generation; then no member counts as the guarded
            process'. Members that were listed before it held the lock belong to its predecessor or to a copy.
client id   The operator names client ids that only this process has. If members with that client id come from several
            hosts, or two are in one finished generation, this is wrong, and none counts. A member that was in the first
            answer may belong to another process: it counts only if the guarded process has lived for `SETTLED_S`.

The guard never removes static members: they replace themselves.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import state_directory
from bellwether_kafka.coordinator.guard.arguments import GuardOptions
from bellwether_kafka.coordinator.guard.guarded import Guarded
from bellwether_kafka.coordinator.guard.state_directory import Lock, RunningStreams, StateDirectory, has_closed
from bellwether_kafka.coordinator.membership import FINISHED, DescribeAnswer, DescribedMember
from bellwether_kafka.protocol.messages import process_in_client_id, reported_process
from bellwether_kafka.protocol.primitives import TopicPartition

# A process that ends sooner may never have joined, as one that crashes while it starts.
SETTLED_S = 10.0

_THREAD = re.compile(r"(?P<client>.+)-StreamThread-(?P<thread>\d+)-consumer")


@dataclass(frozen=True, slots=True)
class Identity:
    """What identifies the process. `process_id` is the process id of Kafka Streams, None if unknown."""

    group_id: str
    process_id: str | None = None
    client_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member that was listed. `process_id` is the one in its subscription, None until that was shown."""

    member_id: str
    client_id: str
    client_host: str
    static: bool
    process_id: str | None
    at_first: bool  # it was in the first answer
    before: bool  # it was listed before the process could have joined


@dataclass(frozen=True, slots=True)
class SeenMembers:
    """The state after all answers so far. `members`: the members of the last answer. `shared`: client ids that several
    members had in one finished generation. `copied`: those of them whose members also had one process id.

    A member that died while it waited for a generation is listed in it, beside its successor
    (docs/internals/broker-behaviour.md#parked-requests). The two share a client id without being copies: they have
    different process ids, or the dead one was listed before. Once a client id was shared, any further member with it
    may belong to a copy.
    """

    refreshes: int = 0
    members: Mapping[str, SeenMember] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class StreamThread:
    """A stream thread of Kafka Streams."""

    process_id: str
    number: int


@dataclass(frozen=True, slots=True)
class Belonging:
    """The members of the process. `member_ids`: those proven. `threads`: its stream threads whose process id is known.
    `objections`: sentences about members that may belong to it but are not proven to. `static`: its static members by
    process id, which the guard never removes."""

    member_ids: tuple[str, ...] = ()
    threads: tuple[StreamThread, ...] = ()
    objections: tuple[str, ...] = ()
    static: tuple[str, ...] = ()


def updated(seen: SeenMembers, answer: DescribeAnswer, *, joins: bool = True) -> SeenMembers:
    """Returns the state after this answer, which must have come while the process lived. `joins`: the process may have
    joined before the answer. An answer with an error changes nothing."""
    if answer.error:
        return seen
    members = {m.member_id: _as_seen(m, seen, joins=joins) for m in answer.members}
    dynamic = [m for m in members.values() if not m.static]
    processes = [(m.client_id, m.process_id or process_in_client_id(m.client_id)) for m in dynamic if not m.before]
    copied = _twice((client_id, process) for client_id, process in processes if process)
    if answer.state not in FINISHED:  # a dead member and its successor are both listed
        return SeenMembers(seen.refreshes + 1, members, seen.shared, seen.copied | (copied & seen.shared))
    shared = _twice((m.client_id, "") for m in dynamic)
    return SeenMembers(seen.refreshes + 1, members, seen.shared | shared, seen.copied | copied)


def _twice(clients: Iterable[tuple[str, str]]) -> set[str]:
    """Returns the client ids of pairs that occur more than once."""
    return {client_id for (client_id, _), count in Counter(clients).items() if count > 1}


def belonging(identity: Identity, seen: SeenMembers, lived_s: float) -> Belonging:
    """Returns the members of the process. `lived_s` is how long it has lived, in seconds."""
    by_process = [m for m in seen.members.values() if identity.process_id and not m.before and _is_of(m, identity)]
    by_client = [m for m in seen.members.values() if m not in by_process and _named(m.client_id, identity.client_ids)]
    objections: list[str] = []
    own = _unless_copied(by_process, seen, objections) + _unless_shared(by_client, seen, lived_s, objections)
    threads = {thread for m in own if (thread := _thread(m, identity, by_process)) is not None}
    static = (m.member_id for m in seen.members.values() if m.static and _reports(m, identity) and not m.before)
    member_ids = tuple(sorted(m.member_id for m in own))
    return Belonging(member_ids, tuple(sorted(threads)), tuple(objections), tuple(sorted(static)))


def _reports(member: SeenMember, identity: Identity) -> bool:
    return identity.process_id is not None and member.process_id == identity.process_id


def _thread(member: SeenMember, identity: Identity, by_process: list[SeenMember]) -> StreamThread | None:
    parts = _THREAD.fullmatch(member.client_id)
    process_id = identity.process_id if member in by_process else member.process_id
    process_id = process_id or process_in_client_id(member.client_id)
    return StreamThread(process_id, int(parts["thread"])) if parts is not None and process_id else None


def _as_seen(member: DescribedMember, seen: SeenMembers, *, joins: bool) -> SeenMember:
    earlier = seen.members.get(member.member_id)
    reported = earlier.process_id if earlier is not None else None  # which a member never changes
    return SeenMember(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        static=member.instance_id is not None,
        process_id=reported or reported_process(member.metadata),
        at_first=earlier.at_first if earlier is not None else seen.refreshes == 0,
        before=earlier.before if earlier is not None else not joins,
    )


def _is_of(member: SeenMember, identity: Identity) -> bool:
    """Returns whether the member has the process id: by its subscription if that was shown, else by its client id."""
    if member.static:
        return False
    if member.process_id is not None:
        return member.process_id == identity.process_id
    parts = _THREAD.fullmatch(member.client_id)
    return parts is not None and parts["client"] == f"{identity.group_id}-{identity.process_id}"


def _named(client_id: str, named: tuple[str, ...]) -> bool:
    """Returns whether the operator named this client id, or the client.id from which a stream thread's is made."""
    parts = _THREAD.fullmatch(client_id)
    return client_id in named or (parts is not None and parts["client"] in named)


def _unless_copied(members: list[SeenMember], seen: SeenMembers, objections: list[str]) -> list[SeenMember]:
    hosts = sorted({m.client_host for m in members})
    twice = sorted({m.client_id for m in members} & seen.copied)
    if len(hosts) > 1:
        objections.append(f"members with the process id come from several hosts ({', '.join(hosts)}): {_COPIED}")
    elif twice:
        objections.append(f"several members have the client id '{twice[0]}': {_COPIED}")
    return [] if hosts[1:] or twice else members


def _unless_shared(
    members: list[SeenMember], seen: SeenMembers, lived_s: float, objections: list[str]
) -> list[SeenMember]:
    hosts = sorted({m.client_host for m in members})
    if len(hosts) > 1:
        objections.append(f"members with the client id come from several hosts ({', '.join(hosts)}): {_SHARED}")
        return []
    own = []
    for member in members:
        if member.static:
            objections.append(f"'{member.member_id}' is a static member, which replaces itself")
        elif member.client_id in seen.shared:
            objections.append(f"several members have the client id '{member.client_id}' at once: {_SHARED}")
        elif member.at_first and lived_s < SETTLED_S:
            objections.append(
                f"'{member.member_id}' was there when the guard first looked, and the process ended within"
                f" {SETTLED_S:.0f} s: it may be another's"
            )
        else:
            own.append(member)
    return own


_COPIED = "the state directory is a copy; give every instance its own"
_SHARED = "--client-id must be this process' own; give every process another client.id"


class OwnMembers:
    """The members of one process. `had`: the partitions of its members when they last had any. `streams_closed`:
    Streams has closed while the process lived, and its memberships were ended."""

    def __init__(self, process: Guarded, options: GuardOptions) -> None:
        self.directory = StateDirectory(options.state_dir / options.group_id) if options.state_dir else None
        self.had: frozenset[TopicPartition] = frozenset()
        self.streams_closed = False
        self._process = process
        self._options = options
        self._seen = SeenMembers()
        self._streams: RunningStreams | None = None

    @property
    def process_id(self) -> str | None:
        """The process id of Kafka Streams."""
        return self._streams.process_id if self._streams is not None else None

    def take(self, answer: DescribeAnswer) -> None:
        if not self._process.ended:  # members that join after its end belong to another process
            self._seen = updated(self._seen, answer, joins=self._may_have_joined())
            self.had = control.owned(answer, self.now().member_ids) or self.had

    def _may_have_joined(self) -> bool:
        """Returns whether the process may have members. `KafkaStreams` locks its state directory before it joins."""
        if self.directory is None or self._streams is not None or self.streams_closed:
            return True
        return self.take_lock(self.directory, self.directory.lock())

    def take_lock(self, directory: StateDirectory, lock: Lock) -> bool:
        """Records the state of the lock of the state directory. Returns whether the guarded process holds it."""
        unchanged = self._streams is not None and self._streams.lock == lock
        if lock.holder is None or not (unchanged or self._process.is_own(lock.holder)):
            return False
        self._streams, self.streams_closed = state_directory.updated(self._streams, directory, lock), False
        return True

    def has_closed_streams(self, lock: Lock) -> bool:
        return self._streams is not None and has_closed(self._streams, lock)

    def forget_streams(self) -> None:
        """Records that Streams has closed and its memberships are ended."""
        self._streams, self.streams_closed = None, True

    def now(self) -> Belonging:
        return self._belonging(self._options.client_ids)

    def of_streams(self) -> Belonging:
        return self._belonging(())

    def late(self, answer: DescribeAnswer, before: Belonging) -> Belonging:
        """Returns the Streams members of this answer that were not known before. A client id that was ever shared has
        none: the new member may belong to another process that has just restarted."""
        seen = updated(self._seen, answer)
        present = self._belonging((), replace(seen, copied=seen.shared))
        return replace(present, member_ids=tuple(m for m in present.member_ids if m not in before.member_ids))

    def _belonging(self, client_ids: tuple[str, ...], seen: SeenMembers | None = None) -> Belonging:
        named = Identity(self._options.group_id, self.process_id, client_ids)
        return belonging(named, self._seen if seen is None else seen, self._process.lived_s)

    def is_gone(self) -> bool:
        """Returns whether no process is left that could be one of its members. For Streams the lock of the state
        directory decides; other processes that the guarded one started may live on."""
        streams = self.process_id is not None or self.streams_closed
        by_directory = self.directory is not None and streams and not self._options.client_ids
        return self.is_unheld() if by_directory else self._process.is_gone_whole() and self.is_unheld()

    def is_unheld(self) -> bool:
        return self.directory is None or self.directory.lock().holder is None
