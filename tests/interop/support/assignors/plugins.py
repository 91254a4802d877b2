"""Distributions with plug-ins, for processes that are started from here."""

import os
from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, policies: Mapping[str, str], source: str) -> str:
    """A distribution with these policies (classes of `source`, by policy); returns the PYTHONPATH that finds it."""
    module = f"{min(policies)}_plugin"
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    entries = [f"{policy} = {module}:{name}\n" for policy, name in policies.items()]
    (info / "entry_points.txt").write_text(f"[bellwether.assignors]\n{''.join(entries)}")
    (folder / f"{module}.py").write_text(source)
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
