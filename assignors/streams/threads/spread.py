"""From a plan on processes to the same plan on threads, in the form that a decision needs."""

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, task_code
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, ThreadPlan
from bellwether_kafka.assignors.streams.threads.deal import assign_threads
from bellwether_kafka.assignors.streams.threads.stay import stay


def spread(view: StreamsView, plan: StreamsPlan) -> ThreadPlan:
    """Kafka's dealing of tasks to threads, unless the plan wants otherwise. Every copy gets a thread of its process."""
    dealt = assign_threads(view, plan)
    active = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    active[dealt.active.values] = dealt.active.row
    thread = dealt.standby.row
    process = np.repeat(np.arange(view.size), view.capacity)
    given = task_code(process[thread], dealt.standby.values, view.tasks.size)
    order = np.argsort(given)
    at = np.searchsorted(given[order], task_code(plan.standby_process, plan.standby_task, view.tasks.size))
    if plan.stays and len(view.running_on):
        active = stay(view, plan, active)
    return ThreadPlan(active, thread[order][at])
