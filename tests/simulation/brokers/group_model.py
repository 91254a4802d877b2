"""A model of the broker's classic group: one group in the memory of its coordinator node.

Written from docs/internals/broker-behaviour.md. States and timers only; `broker` has
the nodes and what is persisted.
"""

from collections.abc import Callable
from dataclasses import replace

from bellwether_kafka.coordinator.membership import (
    Code,
    DescribeAnswer,
    HeartbeatAnswer,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    LeaveAnswer,
    Sync,
    SyncAnswer,
)
from tests.kit.membership import HashOrder
from tests.simulation.brokers.admission import join_error
from tests.simulation.brokers.group_states import COMPLETING, EMPTY, PREPARING, STABLE
from tests.simulation.brokers.hooks import Hooks
from tests.simulation.brokers.member_entries import GroupMember, Record, Reply, Table
from tests.simulation.brokers.protocol_choice import chosen_protocol
from tests.simulation.clock import Clock, Handle

NEW_MEMBER_S = 300.0


class Group:
    def __init__(self, clock: Clock, hooks: Hooks, record: Record | None = None) -> None:
        self.clock, self.hooks = clock, hooks
        self.state = EMPTY
        self.generation = 0
        self.protocol = ""
        self.leader: str | None = None
        self.table = Table(hooks.order)
        self.pending: dict[str, Handle] = {}
        self.unsynced: set[str] = set()
        self.since = clock.now  # of the present state
        self._join_timer: Handle | None = None
        self._sync_timer: Handle | None = None
        self._initial = False
        self._came = False
        if record is not None:
            self._load(record)

    def _load(self, record: Record) -> None:
        self.generation, self.protocol, self.leader = record.generation, record.protocol, record.leader
        for member_entry in record.member_entries:
            self.table.put(member_entry.kept())
        for member_entry in self.table.listed():
            self._alive(member_entry)
        self.state = STABLE if record.member_entries else EMPTY

    def close(self, error: int) -> None:
        """The node is not the coordinator any more: parked requests are answered so, every timer ends."""
        for member_entry in self.table.listed():
            member_entry.answer_join(JoinAnswer(0, error))
            member_entry.answer_sync(SyncAnswer(0, error))
            if member_entry.timer is not None:
                member_entry.timer.cancel()
        for timer in (*self.pending.values(), self._join_timer, self._sync_timer):
            if timer is not None:
                timer.cancel()

    @property
    def member_entries(self) -> dict[str, GroupMember]:
        return self.table.member_entries

    def waits_for(self) -> set[str]:
        """Members and pending ids without whom the rebalance does not go on."""
        if self.state == PREPARING and not self._initial:
            return {s.member_id for s in self.member_entries.values() if s.join is None} | set(self.pending)
        if self.state == COMPLETING and self.leader is not None:
            return {self.leader}
        return set()

    def may_wait_only_for(self, these: Callable[[str], bool]) -> bool:
        """Less work than `waits_for` where a crowd is waited for."""
        if self.state == PREPARING:
            return all(s.join is not None or these(s.member_id) for s in self.member_entries.values())
        return self.state == COMPLETING

    # ---- JoinGroup ---------------------------------------------------------------------------------------------------

    def join(self, request: Join, client_id: str, reply: Reply) -> None:
        error = join_error(self, request)
        if error == Code.GROUP_MAX_SIZE_REACHED:
            self._refuse(request.member_id)
        if error:
            reply(JoinAnswer(0, error))
        elif request.member_id and request.member_id in self.pending:
            self.pending.pop(request.member_id).cancel()
            self._add(request, request.member_id, client_id, reply)
        elif request.member_id:
            self._join_known(self.member_entries[request.member_id], request, reply)
        elif request.instance_id is not None:
            self._join_static(request, client_id, reply)
        else:
            member_id = self.hooks.new_id(client_id)
            session_s = request.session_timeout_ms / 1000
            self.pending[member_id] = self.clock.after(session_s, lambda: self._drop_pending(member_id))
            reply(JoinAnswer(0, Code.MEMBER_ID_REQUIRED, member_id=member_id))

    def _refuse(self, member_id: str) -> None:
        """A member for which there is no room is one no more."""
        if member_id in self.pending:
            self.pending.pop(member_id).cancel()
        if member_id in self.member_entries:
            self._forget(self.member_entries[member_id])

    def id_error(self, member_id: str, instance_id: str | None) -> int:
        if instance_id is not None:
            holder = self.table.holder(instance_id)
            if holder is None:
                return Code.UNKNOWN_MEMBER_ID
            if holder.member_id != member_id:
                return Code.FENCED_INSTANCE_ID
        return 0 if member_id in self.member_entries else Code.UNKNOWN_MEMBER_ID

    def _add(self, request: Join, member_id: str, client_id: str, reply: Reply) -> None:
        member_entry = GroupMember.of(request, member_id, client_id, reply)
        self.table.put(member_entry)
        self._came = True
        if self.leader is None:
            self.leader = member_id
        self._expire_in(member_entry, NEW_MEMBER_S)
        self.hooks.log(f"broker: {member_id} comes")
        self._go_on()

    def _join_known(self, member_entry: GroupMember, request: Join, reply: Reply) -> None:
        same = member_entry.protocols == request.protocols
        leads = member_entry.member_id == self.leader
        if self.state == EMPTY:
            reply(JoinAnswer(0, Code.UNKNOWN_MEMBER_ID))
        elif same and (self.state == COMPLETING or (self.state == STABLE and not leads)):
            reply(self._joined(member_entry))
        else:
            member_entry.update(request, reply)
            self._go_on()

    def _join_static(self, request: Join, client_id: str, reply: Reply) -> None:
        assert request.instance_id is not None
        new_id = self.hooks.new_id(request.instance_id)
        old = self.table.holder(request.instance_id)
        if old is None:
            self._add(request, new_id, client_id, reply)
            return
        self.hooks.log(f"broker: {new_id} replaces {old.member_id}")
        old.answer_join(JoinAnswer(0, Code.FENCED_INSTANCE_ID))
        old.answer_sync(SyncAnswer(0, Code.FENCED_INSTANCE_ID))
        del self.member_entries[old.member_id]
        self.unsynced.discard(old.member_id)
        if self.leader == old.member_id:
            self.leader = new_id
        old.member_id = new_id
        self.table.put(old)
        self._alive(old)
        old.update(request, reply)
        self.hooks.changed()
        if self.state == STABLE and chosen_protocol(self.member_entries, self.hooks.order) == self.protocol:
            old.join = None
            self._persist()
            reply(replace(self._joined(old), skip_assignment=self.leader == new_id))
        else:
            self._go_on()

    # ---- rebalances --------------------------------------------------------------------------------------------------

    def _enter(self, state: str) -> None:
        self.state = state
        self.since = self.clock.now
        self.hooks.log(f"broker: {state}, generation {self.generation}, {len(self.member_entries)} members")
        self.hooks.changed()

    def _go_on(self) -> None:
        if self.state == PREPARING:
            if not self._initial:
                self._complete_if_all()
        else:
            self._prepare()

    def _prepare(self) -> None:
        for member_entry in self.table.listed():
            if member_entry.answer_sync(SyncAnswer(0, Code.REBALANCE_IN_PROGRESS)):
                self._alive(member_entry)
        if self.state == COMPLETING:
            for member_entry in self.member_entries.values():
                member_entry.assignment = b""
        self.unsynced.clear()
        if self._sync_timer is not None:
            self._sync_timer.cancel()
        self._initial = self.state == EMPTY and self.hooks.initial_delay_s > 0
        self._enter(PREPARING)
        if self._initial:
            self._came = False
            self._linger(self.hooks.initial_delay_s, self._rebalance_s() - self.hooks.initial_delay_s)
            return
        if not self.member_entries:
            self._complete()  # pending ids too are waited for as long as the longest member would be: not at all
            return
        self._set_join_timer(self._rebalance_s())
        self._complete_if_all()

    def _linger(self, delay_s: float, left_s: float) -> None:
        def over() -> None:
            if self._came and left_s > 0:
                self._came = False
                self._linger(min(self.hooks.initial_delay_s, left_s), left_s - min(self.hooks.initial_delay_s, left_s))
            else:
                self._initial = False
                self._complete()

        if self._join_timer is not None:
            self._join_timer.cancel()
        self._join_timer = self.clock.after(delay_s, over)

    def _set_join_timer(self, delay_s: float) -> None:
        if self._join_timer is not None:
            self._join_timer.cancel()
        self._join_timer = self.clock.after(delay_s, self._complete)

    def _rebalance_s(self) -> float:
        return max((member_entry.rebalance_s for member_entry in self.member_entries.values()), default=0.0)

    def _complete_if_all(self) -> None:
        """An id that was given and not used yet is waited for, even where the last member has left meanwhile."""
        if not self.pending and all(member_entry.join is not None for member_entry in self.member_entries.values()):
            self._complete()

    def _complete(self) -> None:
        if self.state != PREPARING:
            return
        if self._join_timer is not None:
            self._join_timer.cancel()
        for member_entry in [s for s in self.table.listed() if s.join is None and s.instance_id is None]:
            self.hooks.log(f"broker: {member_entry.member_id} did not rejoin in time")
            self._forget(member_entry)
        back = [member_entry for member_entry in self.table.listed() if member_entry.join is not None]
        if self.member_entries and not back:
            self._set_join_timer(self._rebalance_s())
            return
        self.generation += 1
        if not back:
            self.protocol = ""
            self._enter(EMPTY)
            self._persist()
            return
        if self.leader not in {member_entry.member_id for member_entry in back}:
            self.leader = back[0].member_id
        self.protocol = chosen_protocol(self.member_entries, self.hooks.order)
        self._enter(COMPLETING)
        self.unsynced = set(self.member_entries)
        generation = self.generation
        self._sync_timer = self.clock.after(self._rebalance_s(), lambda: self._sync_deadline(generation))
        for member_entry in self.table.listed():
            member_entry.is_new = False
            member_entry.answer_join(self._joined(member_entry))
            self._alive(member_entry)

    def _joined(self, member_entry: GroupMember) -> JoinAnswer:
        leads = member_entry.member_id == self.leader
        members: tuple[JoinedMember, ...] = ()
        if leads:
            members = tuple(
                JoinedMember(s.member_id, s.instance_id, s.metadata(self.protocol)) for s in self.table.listed()
            )
        return JoinAnswer(
            0, 0, self.generation, self.protocol, self.leader or "", member_entry.member_id, False, members
        )

    # ---- SyncGroup, Heartbeat, LeaveGroup, DescribeGroups ------------------------------------------------------------

    def sync(self, request: Sync, reply: Reply) -> None:
        error = self.id_error(request.member_id, request.instance_id)
        if not error and self.state == EMPTY:
            error = Code.UNKNOWN_MEMBER_ID
        elif not error and request.generation != self.generation:
            error = Code.ILLEGAL_GENERATION
        elif not error and request.protocol != self.protocol:
            error = Code.INCONSISTENT_GROUP_PROTOCOL
        elif not error and self.state == PREPARING:
            error = Code.REBALANCE_IN_PROGRESS
        if error:
            reply(SyncAnswer(0, error))
            return
        member_entry = self.member_entries[request.member_id]
        if member_entry.member_id == self.leader and request.assignments:
            self.hooks.planned(member_entry.member_id, request.assignments)
        self.unsynced.discard(member_entry.member_id)
        if self.state == STABLE:
            self._alive(member_entry)
            reply(SyncAnswer(0, 0, member_entry.assignment))
            return
        member_entry.sync = reply  # one that this one replaces is never answered
        if member_entry.member_id == self.leader:
            self._take_plan(request)

    def _take_plan(self, request: Sync) -> None:
        given = dict(request.assignments)
        for member_entry in self.table.listed():
            member_entry.assignment = given.get(member_entry.member_id, b"")
        self._enter(STABLE)
        self._persist()
        for member_entry in self.table.listed():
            if member_entry.answer_sync(SyncAnswer(0, 0, member_entry.assignment)):
                self._alive(member_entry)

    def _sync_deadline(self, generation: int) -> None:
        if generation != self.generation or self.state not in (COMPLETING, STABLE) or not self.unsynced:
            return
        for member_id in sorted(self.unsynced & self.member_entries.keys()):
            self.hooks.log(f"broker: {member_id} did not sync in time")
            self._forget(self.member_entries[member_id])
        self._prepare()

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, reply: Reply) -> None:
        error = self.id_error(member_id, instance_id)
        if not error and self.state == EMPTY:
            error = Code.UNKNOWN_MEMBER_ID
        elif not error and generation != self.generation:
            error = Code.ILLEGAL_GENERATION
        if not error:
            self._alive(self.member_entries[member_id])
            error = Code.REBALANCE_IN_PROGRESS if self.state == PREPARING else 0
        reply(HeartbeatAnswer(0, error))

    def leave(self, request: Leave, reply: Reply) -> None:
        reply(LeaveAnswer(0, self.remove(request.member_id, request.instance_id)))

    def remove(self, member_id: str, instance_id: str | None) -> int:
        if not member_id and instance_id is not None:
            holder = self.table.holder(instance_id)
            if holder is None:
                return Code.UNKNOWN_MEMBER_ID
            member_id = holder.member_id
        if member_id in self.pending:
            at_rest = self.state in (COMPLETING, STABLE)
            self._drop_pending(member_id)
            if at_rest and self.hooks.order is HashOrder.JAVA:
                self._prepare()  # a broker of 4.3 makes no difference between ids and members here
            return 0
        error = self.id_error(member_id, instance_id)
        if not error:
            self.hooks.log(f"broker: {member_id} leaves or is removed")
            self._forget(self.member_entries[member_id])
            self._go_on()
        return error

    def describe(self) -> DescribeAnswer:
        stable = self.state == STABLE
        shown = stable or self.hooks.order is HashOrder.JAVA  # up to 3.9 assignments are shown in Stable only
        members = tuple(s.described(self.protocol, stable=stable, shown=shown) for s in self.table.listed())
        kind = "consumer" if self.generation or self.member_entries else ""
        return DescribeAnswer(0, 0, self.state, kind, self.protocol if stable else "", members)

    # ---- sessions ----------------------------------------------------------------------------------------------------

    def _alive(self, member_entry: GroupMember) -> None:
        self._expire_in(member_entry, member_entry.session_s)

    def _expire_in(self, member_entry: GroupMember, delay_s: float) -> None:
        if member_entry.timer is not None:
            member_entry.timer.cancel()
        member_entry.timer = self.clock.after(delay_s, lambda: self._expire(member_entry))

    def _expire(self, member_entry: GroupMember) -> None:
        parked = member_entry.join is not None or member_entry.sync is not None
        if self.member_entries.get(member_entry.member_id) is not member_entry or (parked and not member_entry.is_new):
            return  # who is parked is alive
        self.hooks.log(f"broker: the session of {member_entry.member_id} has expired")
        self._forget(member_entry)
        self._go_on()

    def _forget(self, member_entry: GroupMember) -> None:
        if member_entry.timer is not None:
            member_entry.timer.cancel()
        # A parked SyncGroup is forgotten with its member: its sender waits for its own request timeout.
        member_entry.answer_join(JoinAnswer(0, Code.UNKNOWN_MEMBER_ID))
        member_entry.sync = None
        del self.member_entries[member_entry.member_id]
        self.unsynced.discard(member_entry.member_id)
        if self.leader == member_entry.member_id:
            left = self.table.listed()
            self.leader = left[0].member_id if left else None
        self.hooks.changed()

    def _drop_pending(self, member_id: str) -> None:
        handle = self.pending.pop(member_id, None)
        if handle is not None:
            handle.cancel()
        if self.state == PREPARING:
            self._go_on()

    def _persist(self) -> None:
        member_entries = tuple(member_entry.kept() for member_entry in self.table.listed())
        self.hooks.persist(Record(self.generation, self.protocol, self.leader, member_entries))
