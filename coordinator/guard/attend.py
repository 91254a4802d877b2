"""Attends one process: follows its group while it lives, evacuates it before it is stopped, and removes its members
when it has ended or Kafka Streams has closed in it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from bellwether_kafka.coordinator.groups import Requests
from bellwether_kafka.coordinator.guard import members
from bellwether_kafka.coordinator.guard.arguments import Echo, GuardOptions, once
from bellwether_kafka.coordinator.guard.evacuation import Announcement, PlannedStop
from bellwether_kafka.coordinator.guard.group_link import GroupLink
from bellwether_kafka.coordinator.guard.guarded import Guarded
from bellwether_kafka.coordinator.guard.member_removal import CLOSED, ENDED, EndProof, MemberRemoval
from bellwether_kafka.coordinator.guard.members import OwnMembers
from bellwether_kafka.coordinator.guard.state_directory import StateDirectory
from bellwether_kafka.coordinator.kafka.wire import Transport, UnreachableError
from bellwether_kafka.coordinator.membership import DescribeAnswer, GroupState

# Seconds between polls: while members may still join, while the group is stable, and at most (for large answers).
UNSETTLED_S, SETTLED_S, POLL_S_MAX = 1.0, 3.0, 30.0
BYTES_PER_SECOND_MAX = 100_000
DIRECTORY_POLL_S, NAMELESS_POLLS = 0.1, 50
RECORD_S = 0.25  # SIGTERM waits at most this long until it is recorded that the process is empty
# After the end of the process the guard delays its next start.
END_S = 5.0
LEFT_S, LEFT_POLL_S = 1.0, 0.02  # wait for the processes that the guarded one has left behind
CONNECT_MS, RECONNECT_S = 5_000, 2.0
NOBODY = "It had no proven member, so none is removed."


class Attendance:
    """Attends one guarded process."""

    def __init__(self, process: Guarded, options: GuardOptions, transport: Requests, echo: Echo) -> None:
        self._process = process
        self._options = options
        self._echo = echo
        self._echo_once = once(echo)
        self._link = GroupLink(transport, options.group_id)
        self._own = OwnMembers(process, options)
        self._planned_stop = PlannedStop(process, options, self._link, self._own, echo)
        self._removal = MemberRemoval(options, self._link, echo)
        self._announcement = Announcement(self._planned_stop.log, self._link, echo)
        self._closed_producers: set[str] = set()  # the transactional ids of a Streams that closed before the end
        self._ending_closed: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        process.changed = self._changed.set

    async def run(self) -> None:
        """Returns when the process and its memberships have ended. A process that is no child of the guard may still
        run then: the guard leaves it `grace_s` after its own SIGTERM."""
        self._process.attach(asyncio.get_running_loop())
        polling = [asyncio.create_task(self._kept_up(self._poll_group))]
        if self._own.directory is not None:
            polling.append(asyncio.create_task(self._kept_up(partial(self._poll_directory, self._own.directory))))
        try:
            await self._until(lambda: self._process.stopping)
            if not self._process.ended:
                await self._stop()
        finally:
            for task in polling:
                task.cancel()
        if self._process.ended:
            await self._end_memberships()
            await self._planned_stop.end()
        else:
            self._echo("It runs on and is no longer guarded.")

    async def _stop(self) -> None:
        """Evacuates and stops a child. A process that the guard did not start is stopped by its own parent; for that
        the guard waits at most `grace_s`."""
        if self._process.stopped_by_guard:
            await self._planned_stop.empty(lambda: self._until(lambda: self._process.urgent))
            recording = asyncio.create_task(self._planned_stop.record_empty())
            await asyncio.wait((recording,), timeout=RECORD_S)
            if not self._process.ended:
                self._process.stop()
            await recording
            await self._until_ended()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.grace_s):
                    await self._until_ended()

    async def _until_ended(self) -> None:
        await self._until(lambda: self._process.ended)

    async def _until(self, happened: Callable[[], bool]) -> None:
        """Waits until `happened()` is true or the process has ended."""
        while not (self._process.ended or happened()):
            self._changed.clear()
            await self._changed.wait()

    # ---- while it lives ----------------------------------------------------------------------------------------------

    async def _kept_up(self, poll: Callable[[], Awaitable[None]]) -> None:
        """Polls until cancelled. A defect is named and ends no polling: the guard would act on what it saw before."""
        while True:
            try:
                await poll()
            except Exception as error:  # noqa: BLE001 - whatever a defect raises
                self._echo_once(f"The guard has failed ({type(error).__name__}: {error}) and tries again.")
            await asyncio.sleep(UNSETTLED_S)

    async def _poll_group(self) -> None:
        while True:
            pause_s = UNSETTLED_S
            answer = await self._link.describe()
            if answer is not None:
                self._own.take(answer)
                pause_s = self._pause_s(answer)
                await self._planned_stop.withdraw_left()
            if self._link.trouble:
                self._echo_once(f"The group '{self._options.group_id}' is not seen: {self._link.trouble}.")
            await asyncio.sleep(pause_s)

    def _pause_s(self, answer: DescribeAnswer) -> float:
        settled = answer.state == GroupState.STABLE and bool(self._own.now().member_ids)
        size = sum(len(m.metadata) + len(m.assignment) for m in answer.members)
        return min(max(SETTLED_S if settled else UNSETTLED_S, size / BYTES_PER_SECOND_MAX), POLL_S_MAX)

    async def _poll_directory(self, directory: StateDirectory) -> None:
        nameless = 0
        while True:
            lock = directory.lock()
            own = self._own.take_lock(directory, lock)
            # Streams writes its process id a moment after it has taken the lock.
            nameless = nameless + 1 if own and self._own.process_id is None else 0
            if lock.trouble:
                self._echo_once(f"The state directory shows nothing of the process: {lock.trouble}; check --state-dir.")
            elif nameless > NAMELESS_POLLS:
                self._echo_once(f"{directory.process_file} has no process id, so no member is known by it.")
            elif lock.holder is not None and not own:
                whose = f"process {lock.holder}" if lock.holder else "a process that is not visible from here"
                self._echo_once(f"The state directory {directory.path} is in use by {whose}, not by the guarded one.")
            elif self._own.has_closed_streams(lock):
                self._ending_closed = asyncio.create_task(self._end_closed())
                await asyncio.shield(self._ending_closed)
            await asyncio.sleep(DIRECTORY_POLL_S)

    async def _end_closed(self) -> None:
        """Removes the members of a Kafka Streams that has closed while its process lives on. Its producers are fenced
        only when the process ends: if it opens Streams again, the new producers have the same transactional ids."""
        own = self._own.of_streams()
        self._report_objections(own)
        try:
            async with asyncio.timeout(END_S):
                late = await self._remove_all(own, time.monotonic(), CLOSED, self._is_closed)
        except TimeoutError:
            self._echo_once(
                f"Kafka Streams has closed in it, but its memberships are not ended ({self._link.trouble})."
            )
        else:
            self._closed_producers |= self._removal.producers(own, late)
            self._own.forget_streams()

    def _is_closed(self) -> bool:
        return self._own.directory is not None and self._own.has_closed_streams(self._own.directory.lock())

    # ---- when it is gone ---------------------------------------------------------------------------------------------

    async def _end_memberships(self) -> None:
        try:
            async with asyncio.timeout(END_S):
                # A killed process releases its lock shortly before the guard learns of its end.
                if self._ending_closed is not None:
                    await self._ending_closed
                await self._remove()
        except TimeoutError:
            why = f" ({self._link.trouble})" if self._link.trouble else ""
            what, then = "memberships are not ended", "they end with their sessions"
            if self._removal.answered:
                what, then = "producers are not fenced", "their transactions end with transaction.timeout.ms"
            self._echo(f"Its {what} within {END_S:g} s{why}; {then}.")

    async def _remove(self) -> None:
        own = self._own.now()
        self._report_objections(own)
        if not (own.member_ids or self._own.process_id or self._own.streams_closed):
            self._echo(NOBODY)
        elif not await self._nothing_left():
            self._echo("A process of it still runs, so none of its members is removed.")
        else:
            ended = time.monotonic() if self._process.ended_at is None else self._process.ended_at
            producers = self._closed_producers | self._removal.producers(own)
            removing = self._remove_all(own, ended, ENDED, self._own.is_unheld)
            late, _ = await asyncio.gather(removing, self._removal.fence(sorted(producers), self._own.is_unheld))
            more = self._removal.producers(late) - producers
            await self._removal.fence(sorted(more), self._own.is_unheld)
            if not (own.member_ids or late.member_ids or self._own.streams_closed):
                self._echo(NOBODY)

    def _report_objections(self, own: members.Belonging) -> None:
        for objection in own.objections:
            self._echo_once(f"Not removed: {objection}.")

    async def _remove_all(
        self, own: members.Belonging, since: float, proof: EndProof, is_over: Callable[[], bool]
    ) -> members.Belonging:
        """Removes `own`, then the Streams members that joined after the last poll, and returns the latter: a fenced
        stream thread leaves and joins again (docs/internals/client-quirks.md#java-streams-threads). They are removed
        only if `is_over()` is true after the answer that lists them, that is, if no live process holds the state
        directory."""
        await self._announcement.make(own)
        if own.member_ids:
            await self._removal.remove(own, since, proof, self._planned_stop.empty_at)
        answer = await self._link.describe() if self._own.process_id else None
        if answer is None or not is_over():
            return members.Belonging()
        late = self._own.late(answer, own)
        if late.member_ids:
            await self._removal.remove(late, since, proof, None)
        return late

    async def _nothing_left(self) -> bool:
        until = time.monotonic() + LEFT_S
        while not self._own.is_gone():
            if time.monotonic() > until:
                return False
            await asyncio.sleep(LEFT_POLL_S)
        return True


async def attend(process: Guarded, options: GuardOptions, echo: Echo) -> None:
    """Guards a started process until its memberships have ended. Raises ClientConfigError for unusable properties."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # the guard reports connection errors itself
    transport = Transport(options.properties)
    connecting = asyncio.create_task(_connect(transport, echo))
    try:
        await Attendance(process, options, transport, echo).run()
    finally:
        connecting.cancel()
        await transport.close()


async def _connect(transport: Transport, echo: Echo) -> None:
    """Returns once a broker has been reached. `start` explains errors better than requests, which retry by
    themselves."""
    echo_once = once(echo)
    while True:
        try:
            await transport.start(CONNECT_MS)
        except UnreachableError as error:
            echo_once(f"{error} The guard goes on trying.")
            await asyncio.sleep(RECONNECT_S)
        else:
            return
