"""Asserts that the running composition does what it should; exits 0 or names what is missing. Standard library only.

python3 deploy/compose/smoke.py [--limit-s 180] [--without-grafana], and where they are, such as --bellwether URL. With
--served it is about deploy/compose/broker-assignor.yml, whose three instances --beside names.
"""

import argparse
import json
import sys
import time
import urllib.request
from collections.abc import Callable

BELLWETHER, PROMETHEUS, GRAFANA = "http://127.0.0.1:9790", "http://127.0.0.1:9090", "http://127.0.0.1:3000"
BESIDE = ["http://127.0.0.1:9790", "http://127.0.0.1:9791", "http://127.0.0.1:9792"]
SERVED = 'bellwether_served_requests_total{outcome="plan"}'
MEMBERS = {"orders-view": 4, "counts": 6}  # consumers; threads of three instances
DASHBOARDS = {"bellwether-fleet", "bellwether-group", "bellwether-rebalances", "bellwether-cost"}


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - fixed http addresses
        return str(answer.read().decode())


def query(expression: str) -> list[dict[str, object]]:
    answer = json.loads(get(f"{PROMETHEUS}/api/v1/query?query={urllib.request.quote(expression)}"))
    return list(answer["data"]["result"])


def leads_both_groups() -> bool:
    return all(sample("bellwether_group_leading", group) == 1 for group in MEMBERS)


def every_member_has_joined() -> bool:
    return all(sample("bellwether_members", group) == members for group, members in MEMBERS.items())


def sample(metric: str, group: str) -> float:
    """The value that Bellwether exposes; -1 without one."""
    return exposed(BELLWETHER, f'{metric}{{group="{group}"}}')


def exposed(url: str, series: str) -> float:
    reported = [line for line in get(f"{url}/metrics").splitlines() if line.startswith(f"{series} ")]
    return float(reported[0].removeprefix(series)) if reported else -1.0


def ready() -> bool:
    return get(f"{BELLWETHER}/readyz").strip() == "ok"


def targets_up() -> bool:
    return len(query('up{job="bellwether"} == 1')) == 1


def rules_loaded() -> bool:
    groups = json.loads(get(f"{PROMETHEUS}/api/v1/rules"))["data"]["groups"]
    return bool(groups) and all(rule["health"] == "ok" for group in groups for rule in group["rules"])


def dashboards_provisioned() -> bool:
    dashboards = json.loads(get(f"{GRAFANA}/api/search?type=dash-db"))
    return {dashboard["uid"] for dashboard in dashboards} >= DASHBOARDS


def one_beside_each_broker() -> bool:
    return all(get(f"{url}/readyz").strip() == "ok" for url in BESIDE)


def a_broker_was_sent_a_plan() -> bool:
    """By the Bellwether beside the group's coordinator."""
    return any(exposed(url, SERVED) >= 1 for url in BESIDE)


def partitions_are_in_the_racks_of_their_members() -> bool:
    group = 'group="orders-view"'
    crossing = f'bellwether_observed_cross_rack_partitions{{{group},plan="current"}}'
    unowned = f'bellwether_observed_unowned{{{group},plan="current"}}'
    members = f"bellwether_members{{{group}}}"
    return all((exposed(url, members), exposed(url, crossing), exposed(url, unowned)) == (3, 0, 0) for url in BESIDE)


WHERE_SERVED = (one_beside_each_broker, a_broker_was_sent_a_plan, partitions_are_in_the_racks_of_their_members)
CHECKS: tuple[Callable[[], bool], ...] = (
    ready,
    leads_both_groups,
    every_member_has_joined,
    targets_up,
    rules_loaded,
    dashboards_provisioned,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit-s", type=float, default=180.0)
    parser.add_argument("--without-grafana", action="store_true")
    parser.add_argument("--served", action="store_true")
    parser.add_argument("--beside", nargs=3, default=BESIDE)
    for name in ("bellwether", "prometheus", "grafana"):
        parser.add_argument(f"--{name}", default=globals()[name.upper()])
    asked = parser.parse_args()
    globals().update(
        BELLWETHER=asked.bellwether, PROMETHEUS=asked.prometheus, GRAFANA=asked.grafana, BESIDE=asked.beside
    )
    checks = list(WHERE_SERVED if asked.served else CHECKS)
    if asked.without_grafana and dashboards_provisioned in checks:
        checks.remove(dashboards_provisioned)
    deadline = time.monotonic() + asked.limit_s
    missing = checks
    while missing and time.monotonic() < deadline:
        missing = [check for check in missing if not holds(check)]
        time.sleep(1)
    for check in checks:
        sys.stdout.write(f"{'MISSING' if check in missing else 'ok':8} {check.__name__}\n")
    return 1 if missing else 0


def holds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (OSError, ValueError, KeyError):
        return False


if __name__ == "__main__":
    sys.exit(main())
