"""One process from its start to the end of its memberships: follows its group while it lives, empties it before it
is stopped, and removes its members when it is gone, or when Kafka Streams has closed in it."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import evacuation, members, running_streams
from bellwether_kafka.coordinator.guard.fencing import fence, transactional_id
from bellwether_kafka.coordinator.guard.group_link import DONE, RETRY_S, GroupLink, GroupRequests
from bellwether_kafka.coordinator.guard.options import GuardOptions
from bellwether_kafka.coordinator.guard.process import Guarded
from bellwether_kafka.coordinator.guard.running_streams import RunningStreams
from bellwether_kafka.coordinator.guard.state_directory import StateDirectory
from bellwether_kafka.coordinator.kafka import Transport, UnreachableError
from bellwether_kafka.coordinator.membership import Code, DescribeAnswer, name_of
from bellwether_kafka.protocol.primitives import TopicPartition

Say = Callable[[str], None]

# Between two looks: while members may be coming, and while all is quiet; fewer where answers are large.
UNSETTLED_S, SETTLED_S, LOOK_S_MAX = 1.0, 3.0, 30.0
BYTES_PER_SECOND_MAX = 100_000
DIRECTORY_LOOK_S = 0.1
EMPTYING_LOOK_S = 0.2
RECORD_S = 0.25  # that SIGTERM waits until it is recorded that the process is empty
# After the end of the process the guard delays its next start.
END_S = 5.0
LEFT_S, LEFT_LOOK_S = 1.0, 0.02  # for what the process has started and left behind
CONNECT_MS, RECONNECT_S = 5_000, 2.0
# Members count their heartbeat intervals, usually whole seconds, from the last rebalance on, of which the guard knows
# up to EMPTYING_LOOK_S later. With each interval they are a little later.
HEARTBEAT_S, BETWEEN_FROM_S, BETWEEN_TO_S = 1.0, 0.5, 0.75


@dataclass(frozen=True, slots=True)
class Proof:
    """Why members are removed, for the brokers, and after what, for people."""

    reason: str
    event: str


ENDED = Proof("its process has ended", "its end")
CLOSED = Proof("Kafka Streams has closed in its process", "Kafka Streams closed in it")


class Attendance:
    """What is known of one guarded process and its members."""

    def __init__(self, process: Guarded, options: GuardOptions, transport: GroupRequests, say: Say) -> None:
        self._process = process
        self._options = options
        self._link = GroupLink(transport, options.group_id)
        self._say = say
        self._said: set[str] = set()
        self._seen = members.Seen()
        self._directory = StateDirectory(options.state_dir / options.group_id) if options.state_dir else None
        self._streams: RunningStreams | None = None
        self._closed = False  # Streams, before the process ended
        self._closed_producers: set[str] = set()  # the transactional ids that it had
        self._changed = asyncio.Event()
        self._log = evacuation.ControlLog(self._link, options.control_topic)
        self._order: evacuation.Evacuation | None = None
        self._is_back = False  # whether it has been seen in the group
        self._shown_empty: DescribeAnswer | None = None
        self._empty_at = 0.0
        self._had: frozenset[TopicPartition] = frozenset()  # when it was last seen to have anything
        self._answered = False  # by a broker that was asked to remove its members
        process.changed = self._changed.set

    async def run(self) -> None:
        """Until the process has ended and its memberships with it."""
        self._process.attach(asyncio.get_running_loop())
        looking = [asyncio.create_task(self._look_at_group())]
        if self._directory is not None:
            looking.append(asyncio.create_task(self._look_at_directory(self._directory)))
        try:
            await self._until(lambda: self._process.stopping)
            if not self._process.ended:
                await self._stop()
        finally:
            for task in looking:
                task.cancel()
        if self._process.ended:
            await self._end_memberships()
        else:
            self._say("It runs on, and is guarded no more.")

    async def _stop(self) -> None:
        """A child is emptied and stopped. A process that is not Bellwether's child is stopped by its own parent."""
        if self._process.stops_by_us:
            await self._empty()
            recording = asyncio.create_task(self._record_empty())
            await asyncio.wait((recording,), timeout=RECORD_S)
            if not self._process.ended:
                self._process.stop()
            await recording
            await self._until(lambda: False)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.grace_s):
                    await self._until(lambda: False)

    async def _until(self, happened: Callable[[], bool]) -> None:
        """Waits until it has happened, or the process has ended."""
        while not (self._process.ended or happened()):
            self._changed.clear()
            await self._changed.wait()

    # ---- while it lives ----------------------------------------------------------------------------------------------

    async def _look_at_group(self) -> None:
        while True:
            pause_s = UNSETTLED_S
            answer = await self._link.describe()
            if answer is not None:
                self._take(answer)
                pause_s = self._pause_s(answer)
                await self._withdraw_left()
            self._say_once(
                f"The group '{self._options.group_id}' is not seen: {self._link.trouble}.", self._link.trouble
            )
            await asyncio.sleep(pause_s)

    def _take(self, answer: DescribeAnswer) -> None:
        if not self._process.ended:  # a member that joins later belongs to another process
            self._seen = members.look(self._seen, answer)
            self._had = control.owned(answer, self._belonging().member_ids) or self._had

    async def _withdraw_left(self) -> None:
        """Once it is in the group: it may have been stopped before, without a network and before it was empty."""
        if self._is_back or not (self._options.grace_s and self._process_id and self._belonging().member_ids):
            return
        self._is_back = True
        with suppress(evacuation.NotOrderedError):
            began_ms = int((time.time() - self._process.lived_s) * 1000)
            if await evacuation.withdraw_left(self._log, self._process_id, began_ms):
                self._say("It is back: the order of an earlier guard to empty it is withdrawn.")

    def _pause_s(self, answer: DescribeAnswer) -> float:
        settled = answer.state == members.STABLE and bool(self._belonging().member_ids)
        size = sum(len(m.metadata) + len(m.assignment) for m in answer.members)
        return min(max(SETTLED_S if settled else UNSETTLED_S, size / BYTES_PER_SECOND_MAX), LOOK_S_MAX)

    async def _look_at_directory(self, directory: StateDirectory) -> None:
        while True:
            lock = directory.lock()
            known = self._streams is not None and self._streams.lock == lock
            if lock.holder and (known or self._process.is_ours(lock.holder)):
                self._streams, self._closed = running_streams.look(self._streams, directory, lock), False
            elif lock.holder is not None:
                whose = f"process {lock.holder}" if lock.holder else "a process that is not visible from here"
                self._say_once(
                    f"The state directory {directory.path} is in use by {whose}, not by the guarded one.", whose
                )
            elif self._streams is not None and running_streams.has_closed(self._streams, lock):
                await self._end_closed()
            await asyncio.sleep(DIRECTORY_LOOK_S)

    @property
    def _process_id(self) -> str | None:
        return self._streams.process_id if self._streams is not None else None

    async def _end_closed(self) -> None:
        """Nothing of Streams can be a member any more, although the process lives on. Its producers are fenced with the
        process' end, because their successors, if it opens Streams again, have the same ids."""
        named = members.Identity(self._options.group_id, self._process_id)
        ours = members.belonging(named, self._seen, self._process.lived_s)
        try:
            async with asyncio.timeout(END_S):
                if ours.member_ids:
                    await self._remove_members(ours, time.monotonic(), CLOSED)
        except TimeoutError:
            still = f"Kafka Streams has closed in it, but its memberships are not ended ({self._link.trouble})."
            self._say_once(still, still)
        else:
            self._closed_producers |= self._producers(ours)
            self._streams, self._closed = None, True

    def _belonging(self) -> members.Belonging:
        named = members.Identity(self._options.group_id, self._process_id, self._options.client_ids)
        return members.belonging(named, self._seen, self._process.lived_s)

    # ---- before it is stopped ----------------------------------------------------------------------------------------

    async def _empty(self) -> None:
        """Orders that it be emptied, and waits for that: for `grace_s`, a second SIGTERM, or its end."""
        if not self._options.grace_s:
            return
        ours = self._belonging()
        if not ours.member_ids:
            self._say("It has no proven member, so there is nothing to empty; it is stopped at once.")
            return
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._options.grace_s):
                await self._unless_hurried(self._emptied(ours))
        except evacuation.NotOrderedError as why:
            self._say(f"It is not emptied before it stops: {why}")
        except TimeoutError:
            self._say(f"It is not empty after {self._options.grace_s:g} s, and is stopped.")
        else:
            said = "stopped at once, by a second signal," if self._process.hurried else "empty"
            said = "gone by itself" if self._process.ended else said
            self._say(f"It is {said} after {time.monotonic() - began:.1f} s.")

    async def _emptied(self, ours: members.Belonging) -> None:
        places = [self._process_id] if self._process_id else ours.member_ids
        await self._ordered(places)
        while True:
            answer = await self._link.describe()
            if answer is not None:
                self._take(answer)
                if control.handed_over(self._had, answer, self._belonging().member_ids):
                    self._shown_empty, self._empty_at = answer, time.monotonic()
                    return
            await asyncio.sleep(EMPTYING_LOOK_S)

    async def _ordered(self, places: Sequence[str]) -> None:
        """Gives the order, again and again while only a broker is in the way, as one that restarts."""
        while True:
            try:
                # Known before it stands, so that it is withdrawn in any case.
                self._order = self._order or await evacuation.evacuation(self._log, places, self._options.grace_s)
                await self._order.give()
            except evacuation.NotOrderedError as why:
                if not why.passes:
                    raise
                self._say_once(f"It is not emptied yet: {why}", str(why))
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _record_empty(self) -> None:
        """The leader records the same, unless it dies or loses the network just now: then the order would not end when
        the process is back."""
        if self._order is not None and self._shown_empty is not None:
            with suppress(evacuation.NotOrderedError):
                await self._order.record_empty(self._shown_empty)

    async def _unless_hurried(self, work: Coroutine[None, None, None]) -> None:
        """The work, or until the process has ended, or is to be stopped at once."""
        working = asyncio.create_task(work)
        hurried = asyncio.create_task(self._until(lambda: self._process.hurried))
        try:
            await asyncio.wait((working, hurried), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
        finally:
            working.cancel()
            hurried.cancel()

    # ---- when it is gone ---------------------------------------------------------------------------------------------

    async def _end_memberships(self) -> None:
        try:
            async with asyncio.timeout(END_S):
                await self._remove()
        except TimeoutError:
            why = f" ({self._link.trouble})" if self._link.trouble else ""
            what, then = "memberships are not ended", "they end with their sessions"
            if self._answered:
                what, then = "producers are not fenced", "their transactions end with transaction.timeout.ms"
            self._say(f"Its {what} within {END_S:g} s{why}; {then}.")
        # The order on one that was emptied stands until it is back: the leader sees that.
        if self._order is not None and self._shown_empty is None:
            await self._withdraw(self._order)

    async def _withdraw(self, order: evacuation.Evacuation) -> None:
        why = "the brokers do not answer"
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                while True:
                    try:
                        await order.withdraw()
                    except evacuation.NotOrderedError as error:
                        why = str(error).removesuffix(".")
                    else:
                        return
                    await asyncio.sleep(RETRY_S)
        self._say(
            f"Its order to be emptied is not withdrawn ({why}): it ends when the process is back in the group, or"
            f" expires within {evacuation.AWAY_MS // 60_000} minutes."
        )

    async def _remove(self) -> None:
        ours = self._belonging()
        for doubt in ours.doubts:
            self._say(f"Not removed: {doubt}.")
        if not (ours.member_ids or self._closed):
            self._say("It had no proven member, so none is removed.")
        elif not await self._nothing_left():
            self._say("Something of it still runs, so none of its members is removed.")
        else:
            ended = time.monotonic() if self._process.ended_at is None else self._process.ended_at
            removing = [self._remove_members(ours, ended, ENDED)] if ours.member_ids else []
            producers = sorted(self._closed_producers | self._producers(ours))
            await asyncio.gather(*removing, *map(self._fence, producers))

    async def _nothing_left(self) -> bool:
        """Whether no process is left that could be one of its members."""
        until = time.monotonic() + LEFT_S
        while not self._is_gone():
            if time.monotonic() > until:
                return False
            await asyncio.sleep(LEFT_LOOK_S)
        return True

    def _is_gone(self) -> bool:
        """Of Streams the lock of its directory says so, whatever else the process has started lives on."""
        streams = self._process_id is not None or self._closed
        by_directory = self._directory is not None and streams and not self._options.client_ids
        return self._is_unheld() if by_directory else self._process.is_gone_whole() and self._is_unheld()

    def _is_unheld(self) -> bool:
        return self._directory is None or self._directory.lock().holder is None

    async def _remove_members(self, ours: members.Belonging, since: float, proof: Proof) -> None:
        """The proof that nothing is such a member any more is as old as `since`."""
        await self._between_heartbeats()
        answered = await self._link.remove(ours.member_ids, f"{proof.reason} (bellwether guard)")
        self._answered = True
        took_ms = (time.monotonic() - since) * 1000
        if not answered:
            self._say(f"The broker removed none of its members: {self._link.trouble}.")
            return
        removed = [member_id for member_id, code in answered.items() if not code]
        left = sum(code == Code.UNKNOWN_MEMBER_ID for code in answered.values())
        also = f" {left} had left the group before." if left else ""
        self._say(f"Removed {len(removed)} of its {len(answered)} members, {took_ms:.0f} ms after {proof.event}.{also}")
        for member_id, code in answered.items():
            if code not in DONE:
                self._say(f"The broker did not remove {member_id}: {name_of(code)}.")

    async def _between_heartbeats(self) -> None:
        """Waits until no heartbeat is near, where the process was emptied and so nobody waits for anything of it.

        A rebalance that begins among the heartbeats is noticed by some members at once and by the others a whole
        interval later. Under exactly-once those that have noticed it commit nothing meanwhile.
        """
        if self._shown_empty is None or not self._options.fence:
            return
        answer = await self._link.describe()
        if answer is not None and answer.state == members.STABLE:
            await asyncio.sleep(until_between_heartbeats_s(time.monotonic() - self._empty_at))

    def _producers(self, ours: members.Belonging) -> set[str]:
        """The transactional ids of its threads that are to be fenced."""
        if not self._options.fence or self._process_id is None:
            return set()
        return {transactional_id(self._options.group_id, self._process_id, thread) for thread in ours.threads}

    async def _fence(self, name: str) -> None:
        why_not = await fence(self._link, name, self._is_unheld)
        self._say(f"Fenced {name}." if not why_not else f"Not fenced {name}: {why_not}.")

    def _say_once(self, sentence: str, about: str) -> None:
        if about and about not in self._said:
            self._said.add(about)
            self._say(sentence)


def until_between_heartbeats_s(since_s: float) -> float:
    """How long to wait until none is near, `since_s` after the last rebalance."""
    phase_s = since_s % HEARTBEAT_S
    if phase_s <= BETWEEN_TO_S:
        return max(0.0, BETWEEN_FROM_S - phase_s)
    return HEARTBEAT_S + BETWEEN_FROM_S - phase_s


async def attend(process: Guarded, options: GuardOptions, say: Say) -> None:
    """Guards a process that has been started, until its memberships have ended. Raises ClientConfigError where the
    properties cannot be used."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # the guard's requests report what it would of connections
    transport = Transport(options.properties)
    connecting = asyncio.create_task(_connect(transport, say))
    try:
        await Attendance(process, options, transport, say).run()
    finally:
        # The transport is not closed: it would wait for connections that are being made, and the process ends now.
        connecting.cancel()


async def _connect(transport: Transport, say: Say) -> None:
    """Until a broker has been reached. Requests try again by themselves, but do not say what is wrong so well."""
    said = False
    while True:
        try:
            await transport.start(CONNECT_MS)
        except UnreachableError as error:
            if not said:
                say(f"{error} The guard goes on trying.")
            said = True
            await asyncio.sleep(RECONNECT_S)
        else:
            return
