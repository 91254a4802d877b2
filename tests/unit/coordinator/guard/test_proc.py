"""What is read of real processes in /proc."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.guard import proc
from bellwether_kafka.coordinator.guard.proc import descends, sends_heartbeats

HEARTBEAT_THREAD = "kafka-coordinat"

NOBODY = 2**22 + 1
# A thread as the JVM names it: Linux keeps 15 characters. Python's join returns when the thread has run its last line,
# which is before Linux has taken it from the list of threads.
NAMED = """
import os, sys, threading, time
def named():
    open("/proc/thread-self/comm", "w").write("kafka-coordinator-heartbeat-thread | group")
    print("here", flush=True)
    sys.stdin.readline()
thread = threading.Thread(target=named)
thread.start()
thread.join()
while os.path.exists(f"/proc/self/task/{thread.native_id}"):
    time.sleep(0.01)
print("over", flush=True)
sys.stdin.readline()
"""


def test_a_process_descends_from_those_that_have_started_it() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert descends(process.pid, os.getpid())
        assert not descends(os.getpid(), process.pid)
        process.kill()


def test_nobody_descends_from_a_process_that_is_not_there() -> None:
    assert not descends(NOBODY, NOBODY + 1)
    assert not descends(os.getpid(), NOBODY + 1)


def test_a_process_sends_heartbeats_as_long_as_it_has_such_a_thread() -> None:
    command = [sys.executable, "-c", NAMED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        assert sends_heartbeats(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "over\n"
        assert not sends_heartbeats(process.pid)
    assert not sends_heartbeats(process.pid)


def test_where_threads_cannot_be_seen_one_may_send_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "PROC", tmp_path)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "task").touch()
    assert sends_heartbeats(1), "no directory"
    (tmp_path / "2" / "task" / "2" / "comm").mkdir(parents=True)
    assert sends_heartbeats(2), "no name"
    assert not sends_heartbeats(3), "no process"
    assert len(HEARTBEAT_THREAD) == 15
