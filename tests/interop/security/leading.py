"""An instance that leads on secured brokers, and what it says where they refuse something."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.interop.support.bellwether import COMMAND, Ended, clean_environment, run_to_end, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instance import InstanceHarness
from tests.interop.support.members import wait_until

EXIT_CONFIG = 2


def refused(ended: Ended, *words: str) -> None:
    """The run ended with exit code 2 and exactly one line for people, which holds these words."""
    message = [line for line in ended.text.splitlines() if line and not line.startswith("{")]
    assert ended.code == EXIT_CONFIG, ended.text
    assert "Traceback" not in ended.text
    assert len(message) == 1, message
    assert message[0].endswith("."), message
    missing = [word for word in words if word not in message[0]]
    assert not missing, f"{missing} not in: {message[0]}"


def run(tmp_path: Path, kafka: Mapping[str, str], group: Mapping[str, Any], **settings: Any) -> Ended:
    path = tmp_path / "bellwether.toml"
    path.write_text(toml(dict(kafka), [{"mode": "lead", **group}], http_address="", **settings))
    return run_to_end(["run", "--config", str(path)], environment={"BELLWETHER_LOG_FORMAT": "json"})


def keeps_trying(tmp_path: Path, kafka: Mapping[str, str], group: Mapping[str, Any], *words: str) -> str:
    """The process says this, joins nothing, goes on, and ends in order. Returns what it wrote."""
    path = tmp_path / "bellwether.toml"
    path.write_text(toml(dict(kafka), [{"mode": "lead", **group}], http_address="", log_level="debug"))
    wrote = tmp_path / "wrote"
    environment = clean_environment({"BELLWETHER_LOG_FORMAT": "json"})
    with wrote.open("w") as out:
        process = subprocess.Popen([*COMMAND, "run", "--config", str(path)], env=environment, stdout=out, stderr=out)
        try:
            wait_until(lambda: all(word in wrote.read_text() for word in words), 60, wrote.read_text)
            assert process.poll() is None, wrote.read_text()
            process.terminate()
            assert process.wait(30) == 0, wrote.read_text()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert "Traceback" not in wrote.read_text()
    return wrote.read_text()


def plain(cluster: KafkaCluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap}


def renewals(led: InstanceHarness) -> int:
    """The most logins after the first that one open connection has had."""
    (runner,) = led.service.runners.values()
    open_now = list(runner._transport._connections.by_name.values())
    return max((connection.logged_in for _, connection in open_now), default=0) - 1
