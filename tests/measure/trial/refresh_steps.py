"""Steps on what commands print: true, fit for scripts, and as the help spells it."""

import json
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolSubscription
from tests.interop.support.bellwether import Ended, run_to_end
from tests.interop.support.members import Flock
from tests.interop.support.raw import RawMember
from tests.measure.trial.order_steps import led
from tests.measure.trial.stage import PARTITIONS, Findings, Stage, within
from tests.paths import ROOT

HYPOTHETICAL = "hypothetical"
SESSION_MS = 120_000  # nobody is thrown out while a step looks


def plans_of_a_kip_848_group_are_called_hypothetical(stage: Stage, found: Findings) -> None:
    group = "kip-848"
    stage.cluster.create_topic(group, PARTITIONS)
    with Flock(stage.cluster.bootstrap) as flock:
        stage.settled([flock.member("java", group, [group], [], protocol="consumer")], group)
        for command in ("plan", "simulate", "explain"):
            arguments = (command, group, *(("--add", "1") if command == "simulate" else ()))
            for form in ("table", "json"):
                ended = stage.run(*arguments, "--output", form)
                labelled = HYPOTHETICAL in ended.text.lower()
                found.check(labelled, f"{command} as {form} {'is' if labelled else 'is not'} labelled")
        passed = [c["message"] for c in stage.json("doctor", group) if c["verdict"] == "pass"]
        wrong = [message for message in passed if "lead it" in message or "which Bellwether offers" in message]
        found.check(not wrong, f"doctor passes {wrong or 'nothing that is meaningless'}")


def weights_as_json_can_be_read(stage: Stage, found: Findings) -> None:
    stage.cluster.create_topic("weights-there", 1)
    there = stage.run("weights", "--topic", "weights-there", "--output", "json")
    found.check(there.code == 0 and _parses(there.stdout), f"of an empty topic: exit code {there.code}, {_form(there)}")
    missing = stage.run("weights", "--topic", "weights-missing", "--output", "json")
    found.check(missing.code == 2, f"of a missing topic: exit code {missing.code}, {_form(missing)}")
    for ended in (there, missing):
        found.check("Traceback" not in ended.text, "a traceback" if "Traceback" in ended.text else "no traceback")


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def _form(ended: Ended) -> str:
    return "stdout is JSON" if _parses(ended.stdout) else f"stdout is '{ended.stdout[:60].strip()}'"


def hints_and_help_work_as_written(stage: Stage, found: Findings) -> None:
    with led(stage, "hinted") as scene:
        evacuated = scene.order("evacuate", scene.group, "rack:az1")
        hint = re.search(r"bellwether (unpin \S+ .*?)'? ends that", evacuated.text)
        words = _as_a_shell_reads(hint[1], stage.folder) if hint else []
        undone = bool(words) and scene.order(*words).code == 0 and not scene.in_force()
        found.check(
            undone, f"the hint {'ends' if undone else 'does not end'} it, read by a shell as {words or 'nothing'}"
        )
        scene.order("evacuate", scene.group, "rack:az1")
        item = f"{scene.group}-0"
        scene.order("pin", scene.group, item, "rack:az2")
        scene.order("unpin", scene.group, "*")
        left = scene.in_force()
        found.check(not left, f"after unpin '*' stand {left or 'no orders'}")
    blob = ConsumerProtocolSubscription(topics=("orders",)).encode().hex()
    decoded = run_to_end(["decode", "subscription", blob])
    found.check(decoded.code == 0, f"decode subscription: exit code {decoded.code}")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"bellwether decode (\S+ \S+)", readme)
    ended = run_to_end(["decode", *example[1].split()]) if example else Ended(1, "", "")
    found.check(ended.code == 0, f"README's decode: exit code {ended.code}")
    before_groups = readme.split("bellwether groups")[0]
    reported = "BELLWETHER_CONFIG" in readme or "--bootstrap" in before_groups
    found.check(reported, f"README {'names' if reported else 'does not name'} --bootstrap or BELLWETHER_CONFIG")
    file = stage.folder / "misplaced.toml"
    file.write_text(
        f'[kafka]\n"bootstrap.servers" = "{stage.cluster.bootstrap}"\nstandby = true\n[[groups]]\nname = "x"\n'
    )
    misplaced = run_to_end(["run", "--config", str(file)], limit_s=30)
    found.check(
        misplaced.code == 2 and re.search(r"\b(above|move|top)\b", misplaced.text.lower()) is not None,
        f"a misplaced standby: '{' '.join(misplaced.text.split())[:120]}'",
    )


def _as_a_shell_reads(command: str, folder: Path) -> list[str]:
    """The words of a command line, in a directory with files that a bare * would name."""
    beside = folder / "shell"
    beside.mkdir(exist_ok=True)
    for name in ("one.txt", "two.txt"):
        (beside / name).touch()
    done = subprocess.run(  # the hint is ours
        ["/bin/sh", "-c", f"printf '%s\\n' {command}"],
        cwd=beside,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split("\n")[:-1]


def own_member_is_not_counted_as_theirs(stage: Stage, found: Findings) -> None:
    with led(stage, "counted") as scene:
        warnings = stage.json("plan", scene.group)["warnings"]
        own = [warning for warning in warnings if "bellwether-" in warning]
        found.check(not own, f"plan warns {own or 'of none of ours'}")
        checks = {check["name"]: check["message"] for check in stage.json("doctor", scene.group)}
        beside = checks.get("group size", "")
        found.check(f"beside {len(scene.members)} members" in beside, f"doctor: {beside}")
        versions = checks.get("versions", "")
        found.check(len(re.findall(r"v\d+", versions)) <= 1, f"doctor: {versions}")


def small_things_are_right(stage: Stage, found: Findings) -> None:
    for option in ("--version", "-h"):
        ended = run_to_end([option])
        found.check(ended.code == 0, f"{option}: exit code {ended.code}")
    for command in ("describe", "plan", "explain", "simulate"):
        ended = stage.run(command, "there-is-none")
        found.check(ended.code == 2, f"{command} of a missing group: exit code {ended.code}")
    found.check((ROOT / "LICENSE").exists(), "LICENSE")
    with led(stage, "small") as scene:
        _small_counts(stage, found, scene.group)
        generation = stage.rests(scene.group)
        rackless = stage.joining(scene.flock, scene.group, rack=None)
        stage.settled([*scene.members, rackless], scene.group)
        stage.rests(scene.group)
        lines = [e for e in scene.product.process.log("decision", group=scene.group) if e["generation"] > generation]
        levels = sorted({str(e["level"]) for e in lines})
        found.check(levels == ["info"], f"decisions with a member without a rack are logged as {levels}")
        given, moved = sum(e["new"] for e in lines), sum(e["moved"] for e in lines)
        found.check(given == 0, f"moved {moved}, and new {given} although all had owners")
        rows = {line.split()[0]: line for line in stage.run("groups").stdout.splitlines() if len(line.split()) > 3}
        message = rows.get(scene.group, "")
        found.check("bellwether" in message.lower(), f"groups: {' '.join(message.split())}")
        one = stage.run("top", scene.group, "--once").stdout
        found.check("1 groups" not in one, "top says '1 groups'" if "1 groups" in one else "top counts in English")
    listed = [group["group_id"] for group in stage.json("groups")]
    found.check(_is_sorted(listed), f"groups are {'' if _is_sorted(listed) else 'not '}in the order of their names")


def _small_counts(stage: Stage, found: Findings, group: str) -> None:
    ended = stage.run("plan", group, "--output", "json")
    for wrong in ("2147483647", "first plan, for"):
        found.check(wrong not in ended.stdout, f"plan {'says' if wrong in ended.stdout else 'does not say'} '{wrong}'")


def _is_sorted(names: Sequence[str]) -> bool:
    return list(names) == sorted(names)


def describing_a_rebalance_shows_no_decoder_errors(stage: Stage, found: Findings) -> None:
    """The first of two members does not come back, so the round stays open."""
    group = "in-a-rebalance"
    stage.cluster.create_topic(group, PARTITIONS)
    protocols = [("range", ConsumerProtocolSubscription(topics=(group,)).encode())]
    with (
        stage.bellwether(group) as own,
        RawMember(stage.cluster.bootstrap, group, protocols, session_ms=SESSION_MS) as first,
        RawMember(stage.cluster.bootstrap, group, protocols, session_ms=SESSION_MS) as second,
    ):
        stage.led(own, group)
        first.rebalance()
        joining = threading.Thread(target=second.rebalance, daemon=True)
        joining.start()
        opened = within(20, lambda: stage.shown(group).state == "PreparingRebalance")
        assert opened is not None, "no round was opened"
        texts = {form: stage.run("describe", group, "--output", form).text for form in ("table", "json")}
        still = stage.shown(group).state
        first.rebalance()
        joining.join(60)
    found.check(still == "PreparingRebalance", f"looked at in {still}")
    for form, text in texts.items():
        wrong = re.search(r"bytes needed|at byte|left over", text)
        found.check(wrong is None, f"describe as {form} says '{wrong[0] if wrong else 'nothing of bytes'}'")
