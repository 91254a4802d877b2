"""The policy `streams-ha`: what KIP-441 and KIP-925 promise and the shipped HighAvailabilityTaskAssignor lacks.

Tasks stay with their owners as long as that is balanced, per subtopology too, and on the same thread. An active task
that waits for a warm-up waits where it runs. Standbys stay where they are, spread over racks unless tags determine
their spread. Everything else is HighAvailability's.

If the rack optimisation is on, its strategy decides whether subtopologies are to be even. It starts from the current
placement and is repeated until it changes nothing, because otherwise each rebalance would move a few more tasks.

The stages of `stages/` apply once actives have been placed: capacity weighs the balance, and then host affinity,
co-location and the budget of moves refine it.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray, LongArray, task_code
from bellwether_kafka.assignors.streams import application, placing
from bellwether_kafka.assignors.streams.stages import NO_STAGES, StageConfigs, Steps

_MOST_REPEATS = 10


class StreamsHighAvailability:
    """One assignment that starts from the current placement. `assign` runs the steps; they pass on owners by task,
    NOBODY for none."""

    def __init__(
        self,
        view: application.StreamsView,
        configs: application.AssignmentConfigs,
        racks: placing.RackOptimiser | None = None,
        stages: StageConfigs = NO_STAGES,
    ) -> None:
        self.steps = Steps(view, stages, racks=racks is not None)
        self.view = self.steps.view
        self.configs = configs
        self.racks = racks
        self.place = placing.Placement(self.view)
        self.lags = application.TaskLags.of(self.view, configs.acceptable_recovery_lag)
        self.stateful: IntArray = np.flatnonzero(self.view.tasks.stateful).astype(np.int32)
        self.stateless: IntArray = np.flatnonzero(~self.view.tasks.stateful).astype(np.int32)
        self._resumed: list[int] = np.flatnonzero(view.resumed).tolist()
        self._waits_until_ms = self._expected_until_ms()
        self._suspended = self._waits_until_ms is not None or self._hands_all_over()
        self._limits = self._limits_now()
        self._away = self._limits is not None and bool(self._limits.away.any())

    def assign(self) -> application.StreamsPlan:
        """Returns the plan: stateful actives with the stages, then standbys, then movements that leave tasks where
        their state is, and then stateless tasks. These are balanced against where stateful tasks will end up, so that
        the end of a warm-up moves no stateless task."""
        steps, stateful, stateless = self.steps, self.stateful, self.stateless
        owner = current_owners(self.view, self.lags)
        ran = placing.previous_owners(self.view)
        self._live = running = self._running(owner, ran) if steps.any else owner

        nothing = np.zeros(self.view.size, dtype=np.int64)
        runs = ran[stateless]
        self._stateless_now = np.bincount(runs[runs != NOBODY], minlength=self.view.size)
        self._place_actives(
            stateful, self._on_their_way(owner), nothing, self.configs.rack_costs(*placing.STATEFUL_COSTS)
        )
        destination, now = self._refined(stateful, self._active(), running)
        self._replace(stateful, now)
        notes = self._place_standbys()
        moved, early = self._move()

        end_up = np.bincount(destination[stateful], minlength=self.view.size)
        self._place_actives(stateless, self._on_their_way(self._homes(ran)), end_up, placing.STATELESS_COSTS)
        placed = self._active()
        if steps.any:
            placed[stateful] = destination[stateful]
        last, now = self._refined(stateless, placed, running)
        waiting_stateless = self._waiting(stateless, now, ran)
        now[waiting_stateless] = ran[waiting_stateless]
        self._replace(stateless, now)

        waiting = early + len(waiting_stateless)
        plan = self.place.plan(probing=moved > 0 or steps.deferred > 0 or waiting > 0, notes=(*steps.notes, *notes))
        return replace(
            plan,
            keeps_threads=True,
            destination=np.where(self.view.tasks.stateful, destination, last),
            evacuated=steps.evacuated,
            suspended=self._suspended,
            deadlines=() if self._waits_until_ms is None else ((self._first_remaining(), self._waits_until_ms),),
            stages=tuple(steps.reports),
            deferred=steps.deferred,
            waiting=waiting,
        )

    @property
    def _stateful_costs(self) -> tuple[int, int]:
        return self.configs.rack_costs(*placing.STATEFUL_COSTS)

    def _active(self) -> IntArray:
        return np.array(self.place.active, dtype=np.int32)

    def _replace(self, tasks: IntArray, owner: IntArray) -> None:
        if not np.array_equal(owner[tasks], self.place.owners(tasks)):
            self.place.replace_actives(tasks, owner[tasks])

    def _refined(self, tasks: IntArray, owner: IntArray, running: IntArray) -> tuple[IntArray, IntArray]:
        """Runs the stages. Returns where these tasks should end up, and where they go in this rebalance."""
        if not self.steps.any:
            return owner, owner.copy()
        destination, now = self.steps.refine(tasks, owner, running, self.lags)
        return destination, now.copy()

    def _expected_until_ms(self) -> int | None:
        """Returns until when (epoch ms) nothing changes for processes that were evacuated and are about to stop, or
        that should come back; None if there are none, or while another process is being evacuated. A single process
        waits for none, because it has everything."""
        view, evacuated = self.steps.view, self.steps.evacuated
        if view.size == 1:
            return None
        if not evacuated.any():
            return view.expected_until_ms
        if not len(view.closes_until_ms):
            return None
        first_ms = int(view.closes_until_ms[evacuated].min())
        return first_ms if first_ms > view.now_ms else None

    def _hands_all_over(self) -> bool:
        """Returns whether processes that are being evacuated still run tasks, and others have caught-up copies of all
        of these. If warm-ups are still to come it can take long, and all other processes proceed as usual."""
        previous = self.view.previous_active
        tasks = previous.values[self.steps.evacuated[previous.row]]
        if not len(tasks):
            return False
        alone = self.steps.last_copies(self.configs.acceptable_recovery_lag)
        return not np.isin(tasks, alone).any()

    def _limits_now(self) -> placing.TaskLimits | None:
        """Returns what orders leave to the placement. A process that has not stopped in time after it was emptied is
        not restarted, so the others share what it had."""
        limits, view = self.steps.limits, self.view
        if limits is None or not len(view.closes_until_ms):
            return limits
        return replace(limits, away=limits.away & (view.closes_until_ms >= view.now_ms))

    def _first_remaining(self) -> int:
        """Returns the first process that no order evacuates, or the first one."""
        return int(np.argmin(self.steps.evacuated))

    def _on_their_way(self, owner: IntArray) -> IntArray:
        """Returns these owners, replaced by the destinations of the last plan where those still apply."""
        destination = self.view.destination
        return np.where(destination == NOBODY, owner, destination) if len(destination) else owner

    def _running(self, owner: IntArray, ran: IntArray) -> IntArray:
        """Returns the process that runs each task now and could continue it."""
        view, total = self.view, self.view.tasks.size
        runs = np.isin(task_code(owner, np.arange(len(owner)), total), view.previous_active.codes(total))
        live = ran.copy()
        live[self.stateful] = np.where(runs, owner, NOBODY)[self.stateful]
        return live

    def _waiting(self, tasks: IntArray, owner: IntArray, ran: IntArray) -> IntArray:
        """Returns those of these tasks that stay for now where they run although `owner` has another process: all that
        would move, if this rebalance hands nothing over."""
        if self.view.hands_over:
            return np.zeros(0, dtype=np.int32)
        runs = ran[tasks]
        waiting: IntArray = tasks[(runs != NOBODY) & (runs != owner[tasks])]
        return waiting

    @property
    def _to_copy(self) -> IntArray:
        """The tasks that should have all their standbys now."""
        if self._waits_until_ms is None:
            return self.stateful
        here: IntArray = self.stateful[self.view.expected[self.stateful] == 0]
        return here

    def _place_standbys(self) -> tuple[str, ...]:
        """Places standbys. Returns notes about tasks with too few of them."""
        replicas = self.configs.num_standby_replicas
        if not replicas:
            return ()
        if self._waits_until_ms is not None:
            self._leave_standbys(self.view.expected)
        elif self.steps.evacuated.any():
            self._leave_standbys(np.zeros(self.view.tasks.size, dtype=np.int32))
        else:
            self._keep_standbys()
        return placing.missing_standbys(self.view, self.place.standbys, self._to_copy.tolist(), replicas)

    def _leave_standbys(self, away: IntArray) -> None:
        """Leaves every copy in place while a process is being evacuated or is away, and places only copies that are
        missing besides those `away` (per task). A copy that moved now would soon move back, and a thread closes stores
        one after the other while its tasks stop."""
        place, replicas = self.place, self.configs.num_standby_replicas
        copies, short = self._copies(), []
        for task, elsewhere in zip(self.stateful.tolist(), away[self.stateful].tolist(), strict=True):
            mine = copies.get(task, ())
            holders = [process for _, process in self.lags.holders(task)]
            others = [process for process in (*holders, *mine) if process != place.active[task]]
            kept = list(dict.fromkeys(process for process in others if process in mine))
            more = [process for process in others if process not in mine]
            for process in (kept + more[: max(0, replicas - elsewhere - len(kept))])[:replicas]:
                place.add_standby(task, process)
            if len(place.standbys[task]) + elsewhere < replicas:
                short.append(task)
        rule = placing.KeepingRule(self.view, self.configs, self.lags)
        placing.fill_lightest(place, rule.spread(place, short, replicas))

    def _copies(self) -> dict[int, list[int]]:
        """Returns the processes that had each stateful task by the last plan in which they took part."""
        copies: dict[int, list[int]] = {}
        for code in self.view.copies.tolist():
            process, task = divmod(code, self.view.tasks.size)
            copies.setdefault(task, []).append(process)
        return copies

    def _keep_standbys(self) -> None:
        """Keeps standbys where they are. With the rack optimisation on they are placed anew, as in Kafka: if it
        exchanged kept standbys, of which only a few may warm up at once, it would undo its previous work each time."""
        if self.racks is None:
            rule: placing.StandbyRule = placing.KeepingRule(self.view, self.configs, self.lags)
        else:
            labels, keys = placing.spread_by(self.view, self.configs)
            rule = placing.LabelRule(labels, keys, placing.task_hashes(self.view))
        rule.assign(self.place, self.stateful.tolist(), self.configs.num_standby_replicas)
        rule.balance(self.place)
        if self.racks is not None:
            self.racks.standbys(self.place, rule, *self._stateful_costs)

    def _move(self) -> tuple[int, int]:
        """Leaves tasks where their state is for now. Returns how many are not where they should end up, and how many of
        these could already be there if this rebalance handed tasks over."""
        place, hashes = self.place, placing.hashes_of(self.view)
        moves = placing.Movements(place, self.lags, self.configs.max_warmup_replicas, hashes, self._resumed)
        aims = place.owners(self.stateful)
        running = running_processes(self.view)
        restoring = self._restoring()
        there = np.array([t for t, p in restoring.items() if place.active[t] == p], dtype=np.int32)
        remaining = running | restoring
        waiting = self._caught_up_early(remaining)
        moving = np.setdiff1d(self.stateful, there)
        moved = moves.actives(moving, remaining, self.steps.reserved, waiting) + len(there)
        # A copy that will run its task is more urgent than one that will remain a standby.
        late = self.stateful[place.owners(self.stateful) != aims].tolist()
        return moved + moves.standbys(closer=True, urgent=late), len(waiting)

    def _restoring(self) -> dict[int, int]:
        """Returns the process of each task that was given to it and has not caught up while no process has: it
        continues, although a standby may be a few records ahead of it."""
        view, owned = self.view, self.view.previous_active
        if not len(view.destination):
            return {}
        late = view.tasks.stateful & (self.lags.caught_count == 0) & (view.destination != NOBODY)
        mine = late[owned.values]
        return dict(zip(owned.values[mine].tolist(), owned.row[mine].tolist(), strict=True))

    def _caught_up_early(self, remaining: Mapping[int, int]) -> frozenset[int]:
        """Returns tasks that could leave their processes now, if this rebalance hands nothing over."""
        if self.view.hands_over:
            return frozenset()
        late = set(self.stateful[self.lags.behind(self.stateful, self.place.owners(self.stateful))].tolist())
        return frozenset(t for t, p in remaining.items() if self.place.active[t] != p and t not in late)

    def _homes(self, ran: IntArray) -> IntArray:
        """Returns the process that ran each task last, before a restart too: an array of its own."""
        home = self.view.home
        return np.where(ran == NOBODY, home, ran) if len(home) else ran.copy()

    def _place_actives(self, tasks: IntArray, owner: IntArray, others: LongArray, rack_costs: tuple[int, int]) -> None:
        """Leaves tasks with their owners, distributes those without one, evens out, and exchanges tasks for racks.
        `others[p]` is what process p has in addition; `rack_costs` are those of traffic and of leaving."""
        if not len(tasks):
            return
        self._even_out(tasks, owner, others)
        self.place.place_actives(tasks, owner[tasks])
        if self.racks is not None and not self._suspended and not self._away:
            limits = self._limits
            self._optimize(self.racks, tasks if limits is None else tasks[limits.free[tasks]], rack_costs)

    def _optimize(self, racks: placing.RackOptimiser, tasks: IntArray, rack_costs: tuple[int, int]) -> None:
        for _ in range(_MOST_REPEATS):
            before = self.place.owners(tasks)
            self.place.replace_actives(tasks, racks.actives(self._active(), tasks, *rack_costs)[tasks])
            if (self.place.owners(tasks) == before).all():
                return

    def _even_out(self, tasks: IntArray, owner: IntArray, others: LongArray) -> None:
        """Evens out by counts; changes `owner` in place. While a process hands over all that it runs, or is expected
        back, other processes' tasks stay where they run, because they would move again when it is back. They stay
        almost all while a process is evacuated, for the same reason (see `TaskLimits`)."""
        steps, limits = self.steps, self._limits
        self._deal_orphans(tasks, owner, others)
        beside = self._stateless_now if self.view.tasks.stateful[tasks[0]] else others
        owner[tasks] = steps.narrow(tasks, owner, self._live, self.lags, beside)[tasks]
        if self._suspended:
            return
        view, remote = self.view, self._remote if self.racks is not None else None
        evener = steps.evener(
            tasks, owner, view.tasks.subtopology, others, view.capacity, self.lags, remote, self._resumed, limits
        )
        evener.run(subtopologies=self.racks is None and not self._away)

    def _deal_orphans(self, tasks: IntArray, owner: IntArray, others: LongArray) -> None:
        orphans = tasks[owner[tasks] == NOBODY]
        if not len(orphans):
            return
        counts = np.bincount(owner[tasks[owner[tasks] != NOBODY]], minlength=self.view.size)
        dealt = placing.deal_to_quotas if self.steps.weighs else placing.deal
        limits, capacity = self.steps.limits, self.view.capacity
        room = capacity if limits is None else np.where(limits.away, 0, capacity)
        owner[orphans] = dealt(counts + others, room, len(orphans))

    def _remote(self, task: int, process: int) -> int:
        """Returns how many source partitions of the task have no replica in the rack of the process."""
        table = self.view.tasks
        return int(table.source_remote[table.source_signature[task], self.view.rack[process]])


def current_owners(view: application.StreamsView, lags: application.TaskLags) -> IntArray:
    """Returns which process should have each stateful task if balance did not matter; NOBODY if there is neither state
    nor owner. In this order: the process that runs it; a process that ran it, possibly before a restart, and has caught
    up; the process with the least lag."""
    table = view.tasks
    report, previous = view.report, view.previous_active
    usable = application.has_state(view.report_lag, table.end_sum[report.values]) & table.stateful[report.values]
    owned = table.stateful[previous.values]
    at_home = np.flatnonzero((lags.home != NOBODY) & table.stateful[: len(lags.home)]).astype(np.int32)
    at_home = at_home[application.is_caught_up(lags.at(at_home, lags.home[at_home]), lags.acceptable_lag)]
    task = np.concatenate([report.values[usable], previous.values[owned], at_home])
    holder = np.concatenate([report.row[usable], previous.row[owned], lags.home[at_home]])
    lag = lags.at(task, holder)
    ran = np.arange(len(task)) >= np.count_nonzero(usable)
    rank = np.where(
        lag == application.LATEST_OFFSET, 0, np.where(ran & application.is_caught_up(lag, lags.acceptable_lag), 1, 2)
    )
    order = np.lexsort((holder, lag, rank, task))
    owner = np.full(table.size, NOBODY, dtype=np.int32)
    owner[task[order][::-1]] = holder[order][::-1]
    return owner


def running_processes(view: application.StreamsView) -> dict[int, int]:
    """Returns the process of each stateful task that runs."""
    runs = view.report_lag == application.LATEST_OFFSET
    return dict(zip(view.report.values[runs].tolist(), view.report.row[runs].tolist(), strict=True))


def assign_streams_ha(
    view: application.StreamsView,
    configs: application.AssignmentConfigs,
    racks: placing.RackOptimiser | None = None,
    stages: StageConfigs = NO_STAGES,
) -> application.StreamsPlan:
    """Returns a plan with what KIP-441 and KIP-925 promise, and the configured stages."""
    return StreamsHighAvailability(view, configs, racks, stages).assign()
