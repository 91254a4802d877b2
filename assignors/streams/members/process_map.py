"""Groups the members of a Streams group into processes.

An unreadable member degrades only itself. If memory knows it, it remains the same thread. Otherwise it is an outsider:
it gets no tasks but a valid empty assignment, because without one it would die and take its instance along
(docs/internals/client-quirks.md#java-streams-threads). No bytes of a member make this module raise.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from bellwether_kafka.assignors.shared import IntArray, RawGroup, RawMember, racks_of
from bellwether_kafka.assignors.streams.application import ProcessView
from bellwether_kafka.assignors.streams.members.memory import StreamsMemory
from bellwether_kafka.protocol.bulk import InfoColumns, SubscriptionColumns, read_infos, read_subscriptions
from bellwether_kafka.protocol.messages import STREAMS_VERSION_MAX
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, java_sorted

SHUTDOWN_REQUESTED = 4
_END_POINT = re.compile(r"(?:[^/\[\]]*://)?\[?([0-9A-Za-z\-%._:]*)\]?:([0-9]{1,10})")
_PORT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class DecodedStreams:
    """A group's decoded bytes in columns. Rows are `members`, the group without Bellwether's own member."""

    raw: RawGroup
    members: tuple[RawMember, ...]
    columns: SubscriptionColumns
    infos: InfoColumns

    @property
    def bad(self) -> dict[int, str]:
        """Unreadable members (rows), with the reasons."""
        return {**self.infos.errors, **self.columns.errors}

    @property
    def shutdown(self) -> bool:
        """Whether a member requests a shutdown of the whole application."""
        return bool((self.infos.error_code == SHUTDOWN_REQUESTED).any())


@dataclass(frozen=True, slots=True, eq=False)
class ProcessMap:
    """The threads and processes of a group. Threads are numbered as in StreamsView: `member[thread]` is the row of its
    member, `process[thread]` its process. `thread[row]` is the thread of a member, -1 for an outsider. `left_out` has
    rows and reasons. `version` is the lowest version used in the group, `common` the lowest of its latest versions.
    `future`: a member is newer than Bellwether."""

    processes: tuple[ProcessView, ...]
    member: IntArray
    process: IntArray
    thread: IntArray
    left_out: Mapping[int, str]
    version: int
    common: int
    future: bool
    warnings: tuple[str, ...] = ()

    @property
    def leader_only(self) -> bool:
        """Whether a process fetches from leaders only, so that the cluster's view must be `with_leaders`."""
        return any(process.leader_only for process in self.processes)


def decode_streams(raw: RawGroup, led: Collection[str] = ()) -> DecodedStreams:
    """Decodes each member except Bellwether's own, once. `led` are the keys of threads that Bellwether already leads,
    which proves that the application has no named topologies. A new member that uses them is then treated as
    unreadable, because if Bellwether left the lead, that member would break the next leader too."""
    members = raw.others
    columns = read_subscriptions([m.metadata for m in members])
    infos = read_infos(columns.user_data)
    if infos.named and any(m.key in led for i, m in enumerate(members) if i not in infos.named):
        odd = [i for i in infos.named if members[i].key not in led]
        infos = infos.without(dict.fromkeys(odd, "uses named topologies, which this application does not have"))
    return DecodedStreams(raw, members, columns, infos)


def future_process(group_id: str) -> ProcessId:
    """Returns the one process id for all members whose version Bellwether cannot read; it is the same in every
    rebalance."""
    return ProcessId.of_bytes(blake2b(b"future " + group_id.encode(), digest_size=16).digest())


def gather(decoded: DecodedStreams, memory: StreamsMemory) -> ProcessMap:
    """Groups the members into processes, in Java's order of UUIDs and of member ids."""
    infos, bad = decoded.infos, decoded.bad
    substitute = future_process(decoded.raw.group_id)
    rows: dict[ProcessId, list[int]] = {}
    left_out: dict[int, str] = {}
    used: set[int] = set()
    latest: set[int] = set()
    for m, raw in enumerate(decoded.members):
        if m not in bad:
            rows.setdefault(infos.process[m] or substitute, []).append(m)
            used.add(int(infos.version[m]))
            latest.add(int(infos.latest[m]))
            continue
        record = memory.threads.get(raw.key)
        if record is None:
            left_out[m] = bad[m]
            continue
        rows.setdefault(record.process_id, []).append(m)
        used.add(record.version)
        latest.add(record.latest_version)
    ordered = [(process, _by_id(decoded.members, rows[process])) for process in sorted(rows)]
    member = np.array([m for _, mine in ordered for m in mine], dtype=np.int32)
    thread = np.full(len(decoded.members), -1, dtype=np.int32)
    thread[member] = np.arange(len(member))
    readable = bad.keys()
    views = [_view(process, mine, [m for m in mine if m not in readable], decoded) for process, mine in ordered]
    return ProcessMap(
        processes=tuple([view for view, _ in views]),
        member=member,
        process=np.repeat(np.arange(len(ordered), dtype=np.int32), [len(mine) for _, mine in ordered]),
        thread=thread,
        left_out=left_out,
        version=min({STREAMS_VERSION_MAX, *used}),
        common=min({STREAMS_VERSION_MAX, *latest}),  # versions 1 and 2 do not send theirs, which Java records as -1
        future=bool(infos.future.any()),
        warnings=tuple([warning for _, warnings in views for warning in warnings]),
    )


def end_point(text: str | None) -> HostInfo | None:
    """Parses "host:port", optionally with a scheme or with brackets around the host; returns None if it is something
    else."""
    match = _END_POINT.fullmatch(text) if text else None
    if match is None or int(match[2]) > _PORT_MAX:
        return None
    return HostInfo(match[1], int(match[2]))


def _by_id(members: Sequence[RawMember], rows: Sequence[int]) -> list[int]:
    if len(rows) == 1:
        return list(rows)
    by_id = {members[m].member_id: m for m in rows}
    return [by_id[member_id] for member_id in java_sorted(by_id)]


def _view(
    process: ProcessId, rows: Sequence[int], readable: Sequence[int], decoded: DecodedStreams
) -> tuple[ProcessView, tuple[str, ...]]:
    """Returns the process as its first readable thread describes it, and warnings about threads that disagree."""
    members = tuple([decoded.members[m].member_id for m in rows])
    client_ids = tuple(client_id for m in rows if (client_id := decoded.members[m].client_id))
    if not readable:
        return ProcessView(process, members, client_ids=client_ids), ()
    infos = decoded.infos
    racks, leader_only = racks_of([decoded.members[m] for m in readable], [decoded.columns.rack[m] for m in readable])
    identities = [(rack, infos.tags[m], infos.end_point[m]) for m, rack in zip(readable, racks, strict=True)]
    first = identities[0]
    host = end_point(first[2])
    warnings = []
    if infos.process[readable[0]] is not None and any(other != first for other in identities):
        warnings.append(f"threads of process {process} disagree on rack, tags or endpoint, {members[0]} counts")
    if first[2] and host is None:
        warnings.append(f"process {process} has the endpoint {first[2]!r}, which is no host:port and left out")
    # Java ignores the racks of a process whose threads disagree on it; having no rack has the same effect.
    in_rack = first[0] if len({other[0] for other in identities}) == 1 else None
    view = ProcessView(process, members, in_rack, first[1], host, any(leader_only), client_ids)
    return view, tuple(warnings)
