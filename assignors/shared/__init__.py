"""The parts that all kinds of groups share: views, memory, stage reports, rules, weights and the min-cost flow."""

from bellwether_kafka.assignors.shared.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    LongArray,
    Ragged,
    among,
    distinct,
    lookup,
    numbered,
    offsets,
    ordinals,
    run_ordinals,
    starts,
    task_code,
)
from bellwether_kafka.assignors.shared.claims import REPEATS_MAX, ClaimKind, Claims, Delivered, check_claims
from bellwether_kafka.assignors.shared.decision import (
    Alternative,
    Clock,
    CopyLag,
    Cost,
    Decision,
    GroupPlan,
    Moves,
    NoState,
    Owner,
    StageReport,
    UnknownItemError,
    Words,
    moves,
    no_clock,
)
from bellwether_kafka.assignors.shared.dense_views import (
    FOREIGN_RACK,
    NO_GENERATION,
    NO_RACK,
    NOBODY,
    ClusterView,
    GroupView,
    Members,
    MemberView,
    Plan,
    Refused,
)
from bellwether_kafka.assignors.shared.entry_points import UnknownNameError, _listed, load_plugins
from bellwether_kafka.assignors.shared.flow import FlowProblem, optimise
from bellwether_kafka.assignors.shared.frozen import claimed_sizes, extended, freeze, known_cluster
from bellwether_kafka.assignors.shared.group import (
    AssignedMember,
    Change,
    RawGroup,
    RawMember,
    Refusal,
    RefusalCause,
    RefusalError,
    WhatIfError,
    racks_of,
)
from bellwether_kafka.assignors.shared.java import JavaHeap, PrioritySet, drain_order
from bellwether_kafka.assignors.shared.load_balance import Balancer, Rules, Terms, excess
from bellwether_kafka.assignors.shared.memory import Memory, digest
from bellwether_kafka.assignors.shared.mincost import Network
from bellwether_kafka.assignors.shared.offset_weights import WEIGHT_WINDOW_MS as WEIGHT_WINDOW_MS
from bellwether_kafka.assignors.shared.offset_weights import OffsetRows as OffsetRows
from bellwether_kafka.assignors.shared.record_sizes import LogSample as LogSample
from bellwether_kafka.assignors.shared.record_sizes import RecordSizes as RecordSizes
from bellwether_kafka.assignors.shared.record_sizes import SizesOfTopics as SizesOfTopics
from bellwether_kafka.assignors.shared.rules import (
    EVERYTHING,
    Identified,
    Rule,
    applicable,
    behind,
    changed,
    known_racks,
    ordered,
    yielding_last,
)
from bellwether_kafka.assignors.shared.weights import Weight, Weights, heaviest
