"""`python -m tests.measure.trial [--steps D1,D2] [-o table|json]`: every step of the trial as a user, on a real broker.
Exit code 0 if all hold.

It tries the tree that it stands in. To try an older one, put this package and `role.py` into a checkout of it.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import MissingToolError, java
from tests.measure.trial import application_steps, lead_steps, order_steps, refresh_steps
from tests.measure.trial.stage import Findings, Outcome, Stage

Step = Callable[[Stage, Findings], None]

STEPS: Sequence[tuple[str, Step]] = (
    ("D1", lead_steps.a_restart_after_sigterm_keeps_the_lead),
    ("D1", lead_steps.a_restart_after_kill_9_keeps_the_lead),
    ("D1", lead_steps.an_absence_longer_than_the_session_ends_with_the_lead),
    ("D2", lead_steps.a_group_that_was_empty_for_long_is_led_when_its_members_come),
    ("D2", lead_steps.bellwether_first_ends_with_bellwether_leading),
    ("D2", lead_steps.the_application_first_ends_with_bellwether_leading),
    ("D2", lead_steps.both_at_once_ends_with_bellwether_leading),
    ("D3", lead_steps.a_fenced_process_reports_the_truth),
    ("D4", application_steps.evacuating_an_application_whose_policy_has_no_rules_is_refused),
    ("D4", order_steps.pinning_to_a_rack_without_a_member_is_refused),
    ("D4", order_steps.draining_without_a_standby_is_refused),
    ("D5", order_steps.a_rack_that_does_not_exist_starts_no_rebalance),
    ("D6", order_steps.an_order_is_recorded_as_the_cause_of_its_rebalance),
    ("D7", order_steps.replay_across_orders_is_all_the_same),
    ("D8", application_steps.plan_describe_and_explain_agree_after_a_take_over),
    ("D9", refresh_steps.plans_of_a_kip_848_group_are_called_hypothetical),
    ("D11", refresh_steps.weights_as_json_can_be_read),
    ("D12", refresh_steps.hints_and_help_work_as_written),
    ("D13", order_steps.orders_to_nobody_are_refused_and_leave_no_trace),
    ("D14", lead_steps.one_converted_group_of_several_leaves_the_process_ready),
    ("D18", lead_steps.a_misspelt_group_is_reported_as_such),
    ("D19", refresh_steps.own_member_is_not_counted_as_theirs),
    ("D20", refresh_steps.small_things_are_right),
    ("D21", refresh_steps.describing_a_rebalance_shows_no_decoder_errors),
    ("D22", application_steps.an_evacuation_does_not_wait_for_the_probing_interval),
    ("D23", application_steps.a_new_application_is_led_from_its_second_generation),
    ("D24", application_steps.unproven_ghosts_are_message_to_need_client_ids_unique),
    ("D25", application_steps.threads_that_join_again_are_no_restarted_process),
)


def tried(stage: Stage, defect: str, step: Step) -> Outcome:
    """Runs one step; one that cannot be gone through has not held."""
    found, began = Findings(), time.monotonic()
    try:
        step(stage, found)
    except Exception as error:  # noqa: BLE001 - whatever ends a step is what it has found, and the others go on
        found.check(False, f"the step ended early: {type(error).__name__}: {str(error)[:600]}")
    seconds = round(time.monotonic() - began, 1)
    return Outcome(defect, step.__name__.replace("_", " "), "; ".join(found.seen), not found.broken, seconds)


def table(outcomes: Sequence[Outcome]) -> Table:
    shown = Table(title=f"{sum(o.held for o in outcomes)} of {len(outcomes)} steps hold", show_lines=True)
    for name in ("defect", "what must hold", "held", "seconds", "observed"):
        shown.add_column(name, overflow="fold")
    for o in outcomes:
        held = "[green]yes[/green]" if o.held else "[red]no[/red]"
        shown.add_row(o.defect, o.must_hold, held, f"{o.seconds:.0f}", o.observed.replace("[", r"\["))
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.trial", description=__doc__)
    parser.add_argument("--steps", default="", help="defects with commas between, such as D1,D2; all by default")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    wanted = {name.strip() for name in options.steps.split(",") if name.strip()}
    unknown = wanted - {defect for defect, _ in STEPS}
    if unknown:
        parser.error(f"no step is called {', '.join(sorted(unknown))}")
    try:
        java()
    except MissingToolError as missing:
        print(f"The trial needs a real broker, and {missing}.", file=sys.stderr)
        return 2
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="bellwether-trial-") as folder, KafkaCluster(nodes=1) as cluster:
        stage = Stage(cluster, Path(folder))
        for defect, step in STEPS:
            if not wanted or defect in wanted:
                outcomes.append(tried(stage, defect, step))
                last = outcomes[-1]
                verdict = "held" if last.held else "NOT HELD"
                message = f"{defect} {verdict} {last.must_hold} ({last.seconds:.0f} s): {last.observed}"
                print(message, file=sys.stderr, flush=True)
        stage.brokers.close()
    if options.output == "json":
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 180).print(table(outcomes))
    return 0 if all(outcome.held for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
