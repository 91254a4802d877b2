"""The membership under any order of answers, errors, silence and orders."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import INTERNAL_ERROR, GroupMembership, MembershipConfig

# ---- the membership --------------------------------------------------------------------------------------------------

NODES = tuple(membership.Node(number, f"broker{number}", 9092) for number in (1, 2))


ORDINARY = (14, 15, 16, 22, 25, 27)


CODES = (*ORDINARY * 3, 79, 81, -1, 3, 999, 23, 24, 26, 30, 82)  # the last ones end it


TIMES = st.sampled_from((0.0, 0.001, 0.5, 3.0, 9.9, 11.0, 400.0))


WAKES_MAX = 200


class Membership(RuleBasedStateMachine):
    """A broker that answers what it likes, when it likes. Nothing it does may raise, make Bellwether send a plan that
    was not made for the generation, or two plans, keep Bellwether busy without time passing, or take an edge that is
    not declared."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 50.0
        self.open: dict[int, membership.Request] = {}
        self.asked: list[membership.Decide] = []
        self.ready: dict[int, tuple[tuple[str, bytes], ...]] = {}
        self.sent: dict[int, tuple[tuple[str, bytes], ...]] = {}
        self.used: set[int] = set()
        self.stopped = False
        self.generation = 0

    @initialize(
        adopt=st.sampled_from(("when-empty", "succeed", "take-over")),
        instance=st.sampled_from((None, "bw")),
        leave=st.booleans(),
        linger=st.sampled_from((None, 1_000)),
        subscribes=st.booleans(),
    )
    def begin(self, adopt: str, instance: str | None, leave: bool, linger: int | None, subscribes: bool) -> None:
        config = MembershipConfig(
            subscribes=subscribes,
            group_id="g",
            adopt=adopt,  # type: ignore[arg-type]  # drawn from its literals
            instance_id=instance,
            leave_on_stop=leave,
            linger_ms=linger,
        )
        self.machine = GroupMembership(config)
        self._take(self.machine.start(self.now))

    # ---- what happens ------------------------------------------------------------------------------------------------

    @rule(seconds=TIMES)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(WAKES_MAX):
            deadline = self.machine.deadline()
            if deadline is None or deadline > self.now:
                return
            self._send(membership.Wake())
        raise AssertionError(f"{WAKES_MAX} wakes and still one is due, in {self.machine.view.state}")

    @rule(others=st.lists(st.sampled_from(("a", "b", "c")), unique=True), leads=st.integers(0, 3))
    def broker_behaves(self, others: list[str], leads: int) -> None:
        """Whatever is open is answered as one would wish, and plans are there; so that a life gets somewhere."""
        for _ in range(12):
            for number, request in list(self.open.items()):
                if self.open.pop(number, None) is not None:
                    self._send(self._kind_answer(number, request, others, leads=leads > 0))
            for asked in self.asked[-1:]:
                if not asked.dry:
                    self._plan(asked)
            deadline = self.machine.deadline()
            if not self.open and deadline is not None:
                self.now = max(self.now, deadline)
                self._send(membership.Wake())

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def broker_answers(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        self._send(self._answer(data, number, self.open.pop(number)))

    @precondition(lambda self: self.open)
    @rule(
        data=st.data(),
        failure=st.sampled_from(
            (*[membership.Failure.DISCONNECTED, membership.Failure.TIMED_OUT] * 4, *membership.Failure)
        ),
    )
    def connection_fails(self, data: st.DataObject, failure: membership.Failure) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        del self.open[number]
        self._send(membership.RequestFailed(number, failure, "drawn"))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def plan_is_there(self, data: st.DataObject) -> None:
        """In time, late, or not at all; for the newest question or an old one."""
        decide_ = data.draw(st.sampled_from(self.asked))
        if decide_.dry:
            ready = membership.ComparisonReady(decide_.generation, data.draw(st.booleans()), "drawn", ("t",))
            failed = membership.ComparisonFailed(decide_.generation, "drawn")
            self._send(ready if data.draw(st.booleans()) else failed)
            return
        if data.draw(st.booleans()):
            self._plan(decide_, pending=data.draw(st.booleans()))
        else:
            self._send(membership.DecisionFailed(decide_.generation, "drawn"))

    @rule(
        event=st.sampled_from(
            (
                membership.RebalanceWanted("drawn", "drawn"),
                membership.StepAsideWanted("drawn"),
                membership.RebalanceOrdered("drawn"),
                membership.OrdersInForce("", ""),
                membership.OrdersInForce("leave", ""),
                membership.OrdersInForce("", "pause"),
                membership.OrdersInForce("", "", "release"),
                membership.ActiveRoleChanged(True, ""),
                membership.ActiveRoleChanged(False, "drawn"),
            )
        )
    )
    def order_arrives(self, event: membership.Event) -> None:
        self._send(event)

    @rule(luck=st.integers(0, 19))
    def reported_to_stop(self, luck: int) -> None:
        if luck == 7:  # seldom: it is the end of every life
            self._send(membership.StopRequested())

    # ---- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def one_parked_request_at_most(self) -> None:
        """But for a second JoinGroup on a lane of its own, which a take-over needs."""
        lanes = Counter(
            (type(r) is membership.Sync, r.lane if isinstance(r, membership.Join) else 0) for r in self._parked()
        )
        assert all(times == 1 for times in lanes.values()), lanes

    @invariant()
    def stopped_machine_is_silent(self) -> None:
        assert not self.stopped or self.machine.deadline() is None

    def teardown(self) -> None:
        """Stopped and with a broker that answers nothing, it ends within a session."""
        if not hasattr(self, "machine"):
            return
        self._send(membership.StopRequested())
        ends_at = self.now + 60.0
        while not self.stopped and (deadline := self.machine.deadline()) is not None and deadline <= ends_at:
            self.now = max(self.now, deadline)
            self._send(membership.Wake())
        assert self.stopped, f"still {self.machine.view.state} a minute after it was asked to stop"

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _parked(self) -> list[membership.Join | membership.Sync]:
        return [r for r in self.open.values() if isinstance(r, (membership.Join, membership.Sync))]

    def _send(self, event: membership.Event) -> None:
        self._take(self.machine.handle(event, self.now))

    def _take(self, commands: tuple[membership.Command, ...]) -> None:
        assert not (self.stopped and commands), f"commands after the end: {commands}"
        for command in commands:
            match command:
                case membership.Abandon():
                    self.open.pop(command.request_id, None)
                case membership.Decide():
                    self.asked = [*self.asked[-2:], command]
                case membership.MembershipStopped():
                    self.stopped = True
                    self.open.clear()
                case membership.Sync():
                    self._check_sync(command)
                case membership.Note():
                    assert not command.reason.startswith(INTERNAL_ERROR), command.reason
            if isinstance(command, membership.Request):
                assert command.request_id not in self.used, "a request id was used twice"
                self.used.add(command.request_id)
                self.open[command.request_id] = command

    def _check_sync(self, sync: membership.Sync) -> None:
        if not sync.assignments:
            return
        assert self.sent.setdefault(sync.generation, sync.assignments) == sync.assignments, "two plans"
        others = {member for member, _ in sync.assignments} - {sync.member_id}
        if others:
            assert sync.assignments == self.ready.get(sync.generation), "a plan that nobody made for this generation"

    def _plan(self, asked: membership.Decide, *, pending: bool = False) -> None:
        plan = tuple((m.member_id, b"plan for " + m.member_id.encode()) for m in asked.members)
        self.ready.setdefault(asked.generation, plan)
        self._send(membership.DecisionReady(asked.generation, self.ready[asked.generation], pending, ("t",)))

    def _kind_answer(
        self, number: int, request: membership.Request, others: list[str], *, leads: bool
    ) -> membership.Answer:
        match request:
            case membership.FindCoordinator():
                return membership.CoordinatorAnswer(number, 0, NODES[0])
            case membership.Describe():
                return membership.DescribeAnswer(number, 0, "Empty")
            case membership.Join() if not request.member_id and request.instance_id is None:
                return membership.JoinAnswer(number, 79, member_id=f"bw-{number}")
            case membership.Join():
                self.generation += 1
                own = request.member_id or f"bw-{number}"
                ids = others if leads or others else ["a"]
                members = (
                    membership.JoinedMember(own, request.instance_id, b"own"),
                    *(membership.JoinedMember(m, None, b"x") for m in ids),
                )
                leader = own if leads else ids[0]
                return membership.JoinAnswer(
                    number, 0, self.generation, "range", leader, own, False, members if leads else ()
                )
            case membership.Sync():
                return membership.SyncAnswer(number, 0, b"bytes")
            case membership.Heartbeat():
                return membership.HeartbeatAnswer(number, 0)
            case _:
                return membership.LeaveAnswer(number, 0)

    def _answer(self, data: st.DataObject, number: int, request: membership.Request) -> membership.Answer:
        error = data.draw(st.sampled_from((*[0] * len(CODES), *CODES)))
        match request:
            case membership.FindCoordinator():
                return membership.CoordinatorAnswer(number, error, None if error else data.draw(st.sampled_from(NODES)))
            case membership.Describe():
                state = data.draw(
                    st.sampled_from(("Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Dead"))
                )
                ids = data.draw(st.lists(st.sampled_from(("a", "b", "c")), unique=True))
                members = tuple(membership.DescribedMember(m, None, b"metadata", b"assignment", m) for m in ids)
                kind = data.draw(st.sampled_from(("consumer", "", "connect")))
                return membership.DescribeAnswer(number, error, state, kind if members else "", "range", members)
            case membership.Join():
                return self._joined(data, number, error, request)
            case membership.Sync():
                return membership.SyncAnswer(number, error, b"" if error else b"bytes")
            case membership.Heartbeat():
                return membership.HeartbeatAnswer(number, error)
            case _:
                return membership.LeaveAnswer(number, error)

    def _joined(self, data: st.DataObject, number: int, error: int, request: membership.Join) -> membership.JoinAnswer:
        own = request.member_id or f"bw-{number}"
        if error:
            return membership.JoinAnswer(number, error, member_id=own if error == 79 else "")
        self.generation += 1
        leads = data.draw(st.booleans())
        ids = data.draw(st.lists(st.sampled_from(("a", "b", "c")), unique=True, min_size=0 if leads else 1))
        members = (
            membership.JoinedMember(own, request.instance_id, b"own"),
            *(membership.JoinedMember(m, None, b"x") for m in ids),
        )
        skip = leads and data.draw(st.booleans())
        leader = own if leads else ids[0]
        return membership.JoinAnswer(number, 0, self.generation, "range", leader, own, skip, members if leads else ())
