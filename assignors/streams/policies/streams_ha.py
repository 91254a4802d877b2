"""The policy `streams-ha`: what KIP-441 and KIP-925 promise and the shipped HighAvailabilityTaskAssignor lacks.

Tasks stay with their owners as long as that is balanced, subtopology by subtopology too, and on the very thread. An
active task that waits for a warm-up waits where it runs. Standbys stay where they are, spread over racks where no tags
say how to spread them. Everything else is HighAvailability's.

With the rack optimisation on, its strategy decides whether subtopologies are to be even. It starts from the current
placement, so it is repeated until it changes nothing: otherwise each rebalance would move a few tasks more.

The stages of `stages/` come in where actives have been placed: capacity weighs the balance, and then host affinity,
co-location and the budget of moves refine it.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray, LongArray, task_code
from bellwether_kafka.assignors.streams import application, placing
from bellwether_kafka.assignors.streams.stages import NO_STAGES, StageConfigs, Steps, deal_to_quotas

_MOST_REPEATS = 10


class StreamsHighAvailability:
    """One assignment, which starts from the current placement. `assign` is the order of things; what it passes from
    step to step are owners by task, NOBODY for none."""

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

    def assign(self) -> application.StreamsPlan:
        """Returns the plan: stateful actives and the stages, standbys, what waits where its state is, and then
        stateless tasks, beside where stateful ones will end up: a warm-up that ends must not move stateless tasks."""
        steps, stateful, stateless = self.steps, self.stateful, self.stateless
        owner = current_owners(self.view, self.lags)
        running = self._running(owner) if steps.any else owner

        nothing = np.zeros(self.view.size, dtype=np.int64)
        self._place_actives(
            stateful, self._on_their_way(owner), nothing, self.configs.rack_costs(*placing.STATEFUL_COSTS)
        )
        destination, now = self._refined(stateful, self._active(), running)
        self._replace(stateful, now)
        notes = self._place_standbys()
        moved, early = self._move()

        end_up = np.bincount(destination[stateful], minlength=self.view.size)
        self._place_actives(stateless, self._on_their_way(self._homes()), end_up, placing.STATELESS_COSTS)
        placed = self._active()
        if steps.any:
            placed[stateful] = destination[stateful]
        last, now = self._refined(stateless, placed, running)
        waiting = self._waiting(stateless, now)
        now[waiting] = placing.previous_owners(self.view)[waiting]
        self._replace(stateless, now)

        held = early + len(waiting)
        plan = self.place.plan(probing=moved > 0 or steps.deferred > 0 or held > 0, notes=(*steps.notes, *notes))
        return replace(
            plan,
            keeps_threads=True,
            destination=np.where(self.view.tasks.stateful, destination, last),
            evacuated=steps.evacuated,
            suspended=self._suspended,
            deadlines=() if self._waits_until_ms is None else ((self._first_remaining(), self._waits_until_ms),),
            stages=tuple(steps.reports),
            deferred=steps.deferred,
            held=held,
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
        """Runs the stages. Returns where these tasks shall end up, and where they go in this rebalance."""
        if not self.steps.any:
            return owner, owner.copy()
        destination, now = self.steps.refine(tasks, owner, running, self.lags)
        return destination, now.copy()

    def _expected_until_ms(self) -> int | None:
        """Until when (epoch ms) everything stays as it is for processes that were emptied and are about to stop, or
        that are to come back; None where there are none, and while another one is being emptied. One that is alone
        waits for nobody: it has everything."""
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
        """Whether processes that are being emptied still run tasks, and others have copies of all of these that have
        caught up. Where warm-ups are still to come it can take long, and everybody else goes on as usual."""
        previous = self.view.previous_active
        tasks = previous.values[self.steps.evacuated[previous.row]]
        if not len(tasks):
            return False
        alone = self.steps.last_copies(self.configs.acceptable_recovery_lag)
        return not np.isin(tasks, alone).any()

    def _first_remaining(self) -> int:
        """The first process that no order empties, or the first one."""
        return int(np.argmin(self.steps.evacuated))

    def _on_their_way(self, owner: IntArray) -> IntArray:
        """These owners, and the destinations of the last plan where those stand."""
        destination = self.view.destination
        return np.where(destination == NOBODY, owner, destination) if len(destination) else owner

    def _running(self, owner: IntArray) -> IntArray:
        """Who runs each task now and could go on with it."""
        view, total = self.view, self.view.tasks.size
        runs = np.isin(task_code(owner, np.arange(len(owner)), total), view.previous_active.codes(total))
        live = placing.previous_owners(view)
        live[self.stateful] = np.where(runs, owner, NOBODY)[self.stateful]
        return live

    def _waiting(self, tasks: IntArray, owner: IntArray) -> IntArray:
        """Those of these tasks that stay for now where they run, although `owner` has another process for them: all
        that would move, where this rebalance hands nothing over."""
        if self.view.hands_over:
            return np.zeros(0, dtype=np.int32)
        runs = placing.previous_owners(self.view)[tasks]
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
        """Returns what there is to say of tasks with too few of them."""
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
        """While a process is being emptied or away, every copy stays, and only what is missing besides those that are
        `away` (per task) is placed: what moves now moves back soon, and a thread closes stores one after the other
        while its tasks stand still."""
        place, replicas = self.place, self.configs.num_standby_replicas
        copies, short = self._copies(), []
        for task, elsewhere in zip(self.stateful.tolist(), away[self.stateful].tolist(), strict=True):
            mine = copies.get(task, ())
            held = [process for _, process in self.lags.holders(task)]
            others = [process for process in (*held, *mine) if process != place.active[task]]
            kept = list(dict.fromkeys(process for process in others if process in mine))
            more = [process for process in others if process not in mine]
            for process in (kept + more[: max(0, replicas - elsewhere - len(kept))])[:replicas]:
                place.add_standby(task, process)
            if len(place.standbys[task]) + elsewhere < replicas:
                short.append(task)
        rule = placing.KeepingRule(self.view, self.configs, self.lags)
        placing.fill_lightest(place, rule.spread(place, short, replicas))

    def _copies(self) -> dict[int, list[int]]:
        """The processes that had each stateful task by the last plan they took part in."""
        found: dict[int, list[int]] = {}
        for code in self.view.copies.tolist():
            process, task = divmod(code, self.view.tasks.size)
            found.setdefault(task, []).append(process)
        return found

    def _keep_standbys(self) -> None:
        """Standbys stay where they are. With the rack optimisation on they are placed anew, as in Kafka: if it
        exchanged standbys that stay, a few of which may warm up at once, it would undo each time what it did before."""
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
        """Leaves tasks where their state is for now. Returns how many are not where they should end up, and how many
        of these could be there already but for this rebalance, which hands nothing over."""
        place, hashes = self.place, placing.hashes_of(self.view)
        moves = placing.Movements(place, self.lags, self.configs.max_warmup_replicas, hashes, self._resumed)
        aims = place.owners(self.stateful)
        running = running_processes(self.view)
        restoring = self._restoring()
        there = np.array([t for t, p in restoring.items() if place.active[t] == p], dtype=np.int32)
        remaining = running | restoring
        held = self._caught_up_early(remaining)
        moving = np.setdiff1d(self.stateful, there)
        moved = moves.actives(moving, remaining, self.steps.reserved, held) + len(there)
        # A copy that will run its task is worth more than one that will stay a standby.
        late = self.stateful[place.owners(self.stateful) != aims].tolist()
        return moved + moves.standbys(closer=True, urgent=late), len(held)

    def _restoring(self) -> dict[int, int]:
        """The process of each task that was given to it and is far from done, while nobody has caught up: it goes on,
        although a standby may be a few records ahead of it."""
        view, owned = self.view, self.view.previous_active
        if not len(view.destination):
            return {}
        late = view.tasks.stateful & (self.lags.caught_count == 0) & (view.destination != NOBODY)
        mine = late[owned.values]
        return dict(zip(owned.values[mine].tolist(), owned.row[mine].tolist(), strict=True))

    def _caught_up_early(self, remaining: Mapping[int, int]) -> frozenset[int]:
        """Tasks that could leave their processes now, in a rebalance in which none does."""
        if self.view.hands_over:
            return frozenset()
        late = set(self.stateful[self.lags.behind(self.stateful, self.place.owners(self.stateful))].tolist())
        return frozenset(t for t, p in remaining.items() if self.place.active[t] != p and t not in late)

    def _homes(self) -> IntArray:
        """Who ran each task last."""
        owner = placing.previous_owners(self.view)
        home = self.view.home
        return np.where(owner == NOBODY, home, owner) if len(home) else owner

    def _place_actives(self, tasks: IntArray, owner: IntArray, others: LongArray, rack_costs: tuple[int, int]) -> None:
        """Leaves tasks with their owners, deals those that have none, evens out, and exchanges tasks for racks.
        `others[p]` is what process p has besides, `rack_costs` are those of traffic and of leaving."""
        if not len(tasks):
            return
        self._even_out(tasks, owner, others)
        self.place.place_actives(tasks, owner[tasks])
        if self.racks is not None and not self._suspended:
            self._optimize(self.racks, tasks, rack_costs)

    def _optimize(self, racks: placing.RackOptimiser, tasks: IntArray, rack_costs: tuple[int, int]) -> None:
        for _ in range(_MOST_REPEATS):
            before = self.place.owners(tasks)
            self.place.replace_actives(tasks, racks.actives(self._active(), tasks, *rack_costs)[tasks])
            if (self.place.owners(tasks) == before).all():
                return

    def _even_out(self, tasks: IntArray, owner: IntArray, others: LongArray) -> None:
        """By counts; changes `owner` in place. While a process hands over all that it runs, or is expected back, the
        tasks of others stay where they run: what moved now would move again when it is back."""
        orphans = tasks[owner[tasks] == NOBODY]
        if len(orphans):
            held = np.bincount(owner[tasks[owner[tasks] != NOBODY]], minlength=self.view.size)
            dealt = deal_to_quotas if self.steps.weighs else placing.deal
            owner[orphans] = dealt(held + others, self.view.capacity, len(orphans))
        if self._suspended:
            return
        view, remote = self.view, self._remote if self.racks is not None else None
        evener = self.steps.evener(
            tasks, owner, view.tasks.subtopology, others, view.capacity, self.lags, remote, self._resumed
        )
        evener.run(subtopologies=self.racks is None)

    def _remote(self, task: int, process: int) -> int:
        """How many source partitions of the task have no replica in the rack of the process."""
        table = self.view.tasks
        return int(table.source_remote[table.source_signature[task], self.view.rack[process]])


def current_owners(view: application.StreamsView, lags: application.TaskLags) -> IntArray:
    """Who should have each stateful task if nothing had to be balanced: NOBODY where there is neither state nor owner.
    In this order: the process that runs it; one that ran it, before a restart too, and has caught up; the least lag."""
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
    """The process where each stateful task runs, of those that run anywhere."""
    runs = view.report_lag == application.LATEST_OFFSET
    return dict(zip(view.report.values[runs].tolist(), view.report.row[runs].tolist(), strict=True))


def assign_streams_ha(
    view: application.StreamsView,
    configs: application.AssignmentConfigs,
    racks: placing.RackOptimiser | None = None,
    stages: StageConfigs = NO_STAGES,
) -> application.StreamsPlan:
    """KIP-441 and KIP-925 as promised, and the stages that are configured."""
    return StreamsHighAvailability(view, configs, racks, stages).assign()
