"""From a plan on processes to the same plan on threads, in the form that a decision needs."""

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray, LongArray
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, ThreadPlan
from bellwether_kafka.assignors.streams.threads.deal import assign_threads
from bellwether_kafka.assignors.streams.threads.stay import stay


def spread(view: StreamsView, plan: StreamsPlan) -> ThreadPlan:
    """Kafka's dealing of tasks to threads, unless the plan wants otherwise. Every copy gets a thread of its process."""
    dealt = assign_threads(view, plan)
    active = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    active[dealt.active] = _threads(dealt.active_first)
    thread = _threads(dealt.standby_first)
    process = np.repeat(np.arange(view.size), view.capacity)
    given = _codes(view, dealt.standby, process[thread])
    order = np.argsort(given)
    at = np.searchsorted(given[order], _codes(view, plan.standby_task, plan.standby_process))
    if plan.stays and len(view.running_on):
        active = stay(view, plan, active)
    return ThreadPlan(active, thread[order][at])


def _threads(first: LongArray) -> IntArray:
    return np.repeat(np.arange(len(first) - 1, dtype=np.int32), np.diff(first))


def _codes(view: StreamsView, task: IntArray, process: IntArray | LongArray) -> LongArray:
    codes: LongArray = task.astype(np.int64) * max(1, view.size) + process
    return codes
