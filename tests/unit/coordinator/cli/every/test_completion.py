"""`--install-completion` in the shells themselves, each with a home of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.commands import bellwether

pytestmark = pytest.mark.slow
Shell = Callable[..., str]


@pytest.fixture(params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Shell]:
    """The shell's name, and a function that runs a script in it."""
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {"HOME": str(tmp_path), "PATH": path, "TERM": "dumb"}

    def run(script: str, *options: str) -> str:
        command = [name, *options, "-c", f"{script}; true"]
        ended = subprocess.run(
            command, env=environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        assert ended.returncode == 0, ended
        return ended.stdout

    return name, run


# What each shell, started anew, prints of how it completes `bellwether`.
REGISTERED = {
    "bash": ("complete -p bellwether", "_bellwether_completion"),
    "zsh": ("print $_comps[bellwether]", "_bellwether"),
}


def test_a_new_shell_completes_after_the_installation(shell: tuple[str, Shell]) -> None:
    name, run = shell
    script, function = REGISTERED[name]
    assert function not in run(script, "-i")
    assert f"{name} completion installed" in run("bellwether --install-completion")
    assert function in run(script, "-i")


def test_the_installed_function_of_bash_completes_a_command(shell: tuple[str, Shell]) -> None:
    name, run = shell
    if name != "bash":
        pytest.skip("zsh completes while a line is edited only")
    run("bellwether --install-completion")
    typed = 'COMP_WORDS=(bellwether app); COMP_CWORD=1; _bellwether_completion bellwether; echo "${COMPREPLY[*]}"'
    assert run(typed, "-i").split() == ["apply"]


def test_what_zsh_asks_for_has_the_command_and_its_help() -> None:
    ended = bellwether(_TYPER_COMPLETE_ARGS="bellwether app", _BELLWETHER_COMPLETE="complete_zsh")
    assert ended.returncode == 0, ended.stderr
    assert '"apply":"Carry out a plan that' in ended.stdout
