"""Every invariant: a plan that breaks it is found and named, and a good plan is fine."""

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer.validate import validate
from bellwether_kafka.assignors.shared import GroupView, MemberView, Plan
from tests.kit.consumers import cluster_of

MAX_FINDINGS = 10

CLUSTER = cluster_of({"t": 2, "u": 1, "nobody's": 1})  # flat: nobody's-0 = 0, t-0 = 1, t-1 = 2, u-0 = 3
MEMBERS = (MemberView("a", None, ("t", "u"), generation=5), MemberView("b", None, ("t",), generation=5))
GROUP = GroupView.of(CLUSTER, MEMBERS)


def plan(*owner: int, pending: tuple[int, ...] = ()) -> Plan:
    result = Plan.of(np.array(owner, dtype=np.int32))
    result.pending[list(pending)] = True
    return result


def test_a_good_plan_has_no_findings() -> None:
    assert validate(GROUP, CLUSTER, plan(-1, 0, 1, 0)) == ()


@pytest.mark.parametrize(
    ("bad", "finding"),
    [
        pytest.param(plan(-1, 0, -1, 0), "t-1 has no owner", id="unowned"),
        pytest.param(plan(-1, 0, 1, 1), "u-0 is given to b, which does not subscribe to it", id="not subscribed"),
        pytest.param(plan(0, 0, 1, 0), "nobody's-0 is given to a, which does not subscribe to it", id="nobody's topic"),
        pytest.param(plan(-1, 2, 1, 0), "t-0 is given to a member that is not there", id="no such member"),
        pytest.param(plan(-1, -2, 1, 0), "t-0 is given to a member that is not there", id="below nobody"),
        pytest.param(plan(-1, 0, 1, 0, pending=(0,)), "nobody's-0 is pending but has no owner", id="withheld, unowned"),
        pytest.param(
            plan(-1, 0, 1, 0, pending=(1,)),
            "t-0 is pending though no other member claims it",
            id="withheld, unclaimed",
        ),
        pytest.param(plan(-1, 0), "the plan has 2 partitions, the cluster has 4", id="shape"),
    ],
)
def test_a_bad_plan_is_named(bad: Plan, finding: str) -> None:
    assert finding in validate(GROUP, CLUSTER, bad)


def test_a_partition_that_another_member_consumes_must_be_pending() -> None:
    group = GroupView.of(CLUSTER, MEMBERS, [[("t", 0)], []])
    assert validate(group, CLUSTER, plan(-1, 1, 0, 0)) == ("t-0 is sent to b while another member consumes it",)
    assert validate(group, CLUSTER, plan(-1, 1, 0, 0, pending=(1,))) == ()
    assert validate(group, CLUSTER, plan(-1, 1, 0, 0), holds_claims=False) == ()


@pytest.mark.parametrize(("generations", "fine"), [((9, 8), True), ((8, 9), False), ((8, 8), False)])
def test_only_the_newest_claim_is_ownership(generations: tuple[int, int], fine: bool) -> None:
    members = [MemberView(m, None, ("t", "u"), generation=g) for m, g in zip("ab", generations, strict=True)]
    group = GroupView.of(CLUSTER, members, [[("t", 0)], [("t", 0)]])
    assert (validate(group, CLUSTER, plan(-1, 0, 1, 0)) == ()) is fine


def test_many_findings_are_counted_not_listed() -> None:
    cluster = cluster_of({"t": 1000})
    group = GroupView.of(cluster, [MemberView("a", None, ("t",))])
    findings = validate(group, cluster, Plan.of(np.full(1000, -1, dtype=np.int32)))
    assert len(findings) == MAX_FINDINGS + 1
    assert findings[-1] == "and 990 more like the last one"


def test_as_many_findings_as_may_be_listed_are_listed() -> None:
    cluster = cluster_of({"t": MAX_FINDINGS})
    group = GroupView.of(cluster, [MemberView("a", None, ("t",))])
    findings = validate(group, cluster, Plan.of(np.full(MAX_FINDINGS, -1, dtype=np.int32)))
    assert findings == tuple(f"t-{p} has no owner" for p in range(MAX_FINDINGS))


def test_a_group_without_members_needs_no_owners() -> None:
    group = GroupView.of(CLUSTER, [])
    assert validate(group, CLUSTER, plan(-1, -1, -1, -1)) == ()
