"""The guard as a parent of real processes, where no broker is: signals, orphans, exit codes, and what it costs."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.guard.guarded import CommandError, wait_for_pid

pytestmark = pytest.mark.slow

NO_BROKER = "127.0.0.1:1"
GUARD = [
    sys.executable,
    "-m",
    "bellwether_kafka",
    "guard",
    "--group",
    "g",
    "--client-id",
    "c",
    "--bootstrap",
    NO_BROKER,
]


def guarded(*command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GUARD, *options, "--", *command], capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def guarding(script: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A guard whose child, a shell, has said that it is there."""
    command = [*GUARD, *options, "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["/nowhere/at/all"], 127),
        (["/"], 126),
    ],
)
def test_the_exit_code_is_that_of_the_command(command: list[str], code: int) -> None:
    ended = guarded(*command)
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr


def test_output_and_arguments_go_through_unchanged() -> None:
    ended = guarded("printf", "%s|", "--group", "a b", "--help")
    assert ended.stdout == "--group|a b|--help|", ended.stderr


def test_signals_are_passed_on() -> None:
    with guarding("trap 'echo usr1; exit 3' USR1; echo here; while :; do sleep 0.1; done") as process:
        process.send_signal(signal.SIGUSR1)
        assert process.wait(30) == 3
        assert process.stdout is not None
        assert process.stdout.read() == "usr1\n"


def test_a_signal_that_comes_between_the_loops_last_poll_and_its_end_is_passed_on() -> None:
    script = """if True:
        import asyncio, os, signal
        from bellwether_kafka.coordinator.guard.guarded import Child

        child = Child(["sh", "-c", "trap 'exit 3' USR1; echo here; while :; do sleep 0.1; done"])
        child.start()
        loop = asyncio.new_event_loop()
        child.attach(loop)
        loop.run_until_complete(asyncio.sleep(1))
        os.kill(os.getpid(), signal.SIGUSR1)
        loop.close()
        child.wait()
        raise SystemExit(child.exit_code)
    """
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (3, "here\n"), ended.stderr


def test_where_nobody_can_be_asked_to_empty_it_the_process_is_stopped_at_once_and_that_is_reported() -> None:
    with guarding("trap 'exit 5' TERM; echo here; while :; do sleep 0.1; done", "--grace", "60") as process:
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 5
        assert time.monotonic() - began < 20
        assert process.stderr is not None
        assert "nothing to empty; it is stopped at once" in process.stderr.read()


def test_orphans_are_adopted_and_reaped() -> None:
    """The child of a child that ends becomes a child of the guard, and no zombie."""
    with guarding("(sleep 0.2 & echo $! >&2); echo here; read -r line") as process:
        assert process.stderr is not None
        orphan = int(process.stderr.readline())
        until = time.monotonic() + 30
        while Path(f"/proc/{orphan}").exists():
            assert time.monotonic() < until, "a zombie is left"
            time.sleep(0.05)


def test_the_child_lives_on_when_its_guard_is_killed() -> None:
    with guarding("echo $$ >&2; echo here; sleep 60") as process:
        assert process.stderr is not None
        child = int(process.stderr.readline())
        process.kill()
        process.wait(30)
        os.kill(child, 0)
        os.kill(child, signal.SIGKILL)


def test_a_process_of_another_is_watched_to_its_end() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        watching = subprocess.Popen([*GUARD, "--pid", str(sleeping.pid)], stderr=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            watching.wait(2)
        sleeping.kill()
        _, message = watching.communicate(timeout=30)
        assert watching.returncode == 0
        assert "no proven member" in message


def test_a_process_that_is_not_there_cannot_be_watched() -> None:
    ended = subprocess.run([*GUARD, "--pid", "4194305"], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert "check --pid" in ended.stderr


def test_a_property_that_cannot_be_used_costs_the_guard_and_not_the_process(tmp_path: Path) -> None:
    file = tmp_path / "guard.toml"
    file.write_text('[kafka]\n"compression.codec" = "zip"\n')
    ended = guarded("sh", "-c", "sleep 0.2; exit 7", options=("--config", str(file)))
    assert ended.returncode == 7
    assert "Nothing is guarded: The property compression.codec is not supported" in ended.stderr


def test_a_file_is_waited_for_until_it_names_a_process_that_lives(tmp_path: Path) -> None:
    file = tmp_path / "app.pid"
    with subprocess.Popen(["true"]) as former:
        former.wait()
    file.write_text(f"{former.pid}\n")
    script = f"sleep 0.5; echo $$ > {file}; exec sleep 1"
    with subprocess.Popen(["sh", "-c", script]) as process:
        command = [*GUARD, "--pid-file", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
        assert process.poll() is not None, "the guard ends with the process"


def test_a_file_that_names_nobody_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="has named no process for 0 s; check --pid-file"):
        wait_for_pid(tmp_path / "app.pid", 0.2)


# one write for each line: a second signal interrupts the handler of the first, and its line would be inside the other
APPLICATION = """import os, signal, sys, time
heard = []
def note(number, _frame):
    heard.append(number)
    os.write(1, f"heard {signal.Signals(number).name}\\n".encode())
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
    signal.signal(number, note)
print("here", flush=True)
until = time.monotonic() + 30
while signal.SIGTERM not in heard and time.monotonic() < until:
    time.sleep(0.02)
time.sleep(0.7)
print("closed", flush=True)
"""
WRAPPERS = {
    "in the foreground": "{app}; echo after",
    "with exec": "exec {app}",
    "with a handler that passes the signal on": "trap 'kill -TERM $it' TERM; {app} & it=$!; wait $it; wait $it",
    "with a handler that waits": "trap 'echo cleaned up' TERM; {app}; echo after",
    "in the background, without a handler": "{app} & wait",
    "in a shell of a shell": "{shell} -c '{app}; true'; true",
    "in a subshell": "({app}; true); true",
    "in a pipe": "{app} | {{ trap '' TERM; cat; }}",
}
SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]


@contextmanager
def behind(shell: str, wrapper: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A guard whose child is a script that starts the application; the guard and what was printed, at its end."""
    (folder / "app.py").write_text(APPLICATION)
    script = folder / "start.sh"
    app = f"{sys.executable} {folder}/app.py"
    script.write_text(f"#!/usr/bin/env {shell}\n" + WRAPPERS[wrapper].format(app=app, shell=shell) + "\n")
    script.chmod(0o755)
    out = folder / "out"
    with out.open("w") as file:
        guard = subprocess.Popen([*GUARD, "--grace", "0", "--", str(script)], stdout=file, stderr=subprocess.DEVNULL)
    printed: list[str] = []
    try:
        until = time.monotonic() + 30
        while "here" not in out.read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
        yield guard, printed
        guard.wait(30)
        printed += out.read_text().splitlines()  # as PID 1, everything else is killed at this moment
    finally:
        with suppress(ProcessLookupError):
            guard.kill()
        guard.wait(30)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_application_behind_a_script_gets_sigterm_and_closes_before_the_guard_ends(
    shell: str, wrapper: str, tmp_path: Path
) -> None:
    with behind(shell, wrapper, tmp_path) as (guard, printed):
        guard.send_signal(signal.SIGTERM)
    assert 1 <= printed.count("heard SIGTERM") <= (2 if "passes the signal on" in wrapper else 1), printed
    assert "closed" in printed
    assert wrapper == "with a handler that waits" or "after" not in printed, "a script is stopped as a whole"


def test_a_signal_that_ends_only_the_shell_ends_no_guard(tmp_path: Path) -> None:
    with behind("sh", "in the foreground", tmp_path) as (guard, printed):
        guard.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        assert guard.poll() is None
        guard.send_signal(signal.SIGTERM)
    assert [line for line in printed if line.startswith("heard")] == ["heard SIGUSR1", "heard SIGTERM"]


def test_on_a_terminal_the_application_behind_a_shell_gets_its_keys_and_the_guards_signals_once(tmp_path: Path) -> None:
    """As with `docker run -it`, where the guard is the session's leader."""
    (tmp_path / "app.py").write_text(APPLICATION.replace("SIGHUP)", "SIGHUP, signal.SIGINT)"))
    pid, terminal = pty.fork()
    if not pid:  # the guard, in a session with a terminal
        app = f"{sys.executable} {tmp_path}/app.py"
        os.execv(sys.executable, [*GUARD, "--grace", "0", "--", "sh", "-c", f"trap '' INT; {app}; true"])  # noqa: S606 - as a login does
    printed = read_until(terminal, "here")
    os.write(terminal, b"\x03")
    printed += read_until(terminal, "heard SIGINT")
    os.kill(pid, signal.SIGTERM)
    printed += read_until(terminal, "closed")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert re.findall(r"heard (\w+)", printed) == ["SIGINT", "SIGTERM"]  # the terminal echoes ^C before the first


def read_until(terminal: int, word: str) -> str:
    read = ""
    while word not in read:
        read += os.read(terminal, 1_000).decode()
    return read


def test_the_command_inherits_nothing_of_bellwethers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_KAFKA_SASL_PASSWORD", "hush-Zx81")
    monkeypatch.setenv("BELLWETHER_KAFKA", '{"sasl.password": "hush-Zx81"}')
    monkeypatch.setenv("ORDERS_KAFKA_PASSWORD", "its own")
    ended = guarded("env")
    assert "BELLWETHER" not in ended.stdout
    assert "ORDERS_KAFKA_PASSWORD=its own" in ended.stdout


def test_a_file_that_is_older_than_the_process_that_it_names_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "app.pid"
    with subprocess.Popen(["sleep", "60"]) as younger:
        file.write_text(f"{younger.pid}\n")
        assert wait_for_pid(file, 0) == younger.pid
        os.utime(file, (time.time() - 3600,) * 2)
        with pytest.raises(CommandError, match="began after the file was written: the number is another program's"):
            wait_for_pid(file, 0.2)
        younger.kill()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda p: p.write_text(str(os.getpid())), "is the guard itself"),
        (lambda p: p.write_text(str(os.getppid())), "has started it"),
        (lambda p: p.write_text("-1"), "has named no process"),
        (lambda p: p.write_text("9" * 5_000), "has named no process"),
        (lambda p: p.write_text("app"), "has named no process"),
        (lambda p: p.write_bytes(b"\xff\xfe"), "has named no process"),
        (os.mkfifo, "cannot be read"),
        (lambda p: p.mkdir(), "cannot be read"),
        (lambda p: p.symlink_to(p), "cannot be read"),
        (lambda p: p.symlink_to("/dev/zero"), "cannot be read"),
    ],
)
def test_nonsense_in_place_of_a_file_with_a_process_is_a_sentence(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    make(tmp_path / "app.pid")
    with pytest.raises(CommandError, match=why) as raised:
        wait_for_pid(tmp_path / "app.pid", 0.2)
    assert str(raised.value).endswith("check --pid-file.")
