"""The image of the Spark jobs: built by its Dockerfile, and run once over the events of the composition."""

import statistics
import tempfile
import time
from pathlib import Path

from tests.deploy.containers.composition import Composition
from tests.deploy.containers.groups import BOOTSTRAP
from tests.deploy.containers.image import LOCKED_DOWN, reported
from tests.deploy.containers.play import NETWORK
from tests.paths import ROOT

IMAGE = "docker.io/library/bellwether-pipeline"
RUN_LIMIT_S = 300.0
RUN = ("run", *LOCKED_DOWN, "--tmpfs=/tmp")
WINDOWS = ("--watermark", "1 second", "--rate-window", "10 seconds")  # so that what has just happened is in the tables
TABLES = {"lag_trends", "rebalances", "culprits", "rates"}  # windows of five minutes and less
STARTS = 3


def prove_pipeline(made: Composition) -> int:
    """Prints what was found; 0 if all of it is as promised. Needs a composition that has lived
    through some minutes of failures."""
    own = made.engine
    own.build(IMAGE, ROOT / "deploy" / "image" / "pipeline.Dockerfile", ROOT)
    (inspected,) = own.ask("image", "inspect", IMAGE)
    starts = []
    for _ in range(STARTS):
        began = time.monotonic()
        own.run(*RUN, "--network=none", IMAGE, "run", "--help")
        starts.append(time.monotonic() - began)
    with tempfile.TemporaryDirectory(dir=own.home) as folder:
        output = Path(folder)
        output.chmod(0o777)
        mount = ("--network", NETWORK, "--volume", f"{output}:/data")
        once = ("run", "--once", "--master=local[2]", "--bootstrap", BOOTSTRAP, "--output=/data/out", *WINDOWS)
        began = time.monotonic()
        own.run(*RUN, *mount, IMAGE, *once, limit_s=RUN_LIMIT_S)
        took_s = time.monotonic() - began
        written = sorted({path.relative_to(output / "out" / "tables").parts[0] for path in output.rglob("*.parquet")})
    facts = {
        "runs as": (inspected["Config"]["User"], inspected["Config"]["User"] == "65532:65532"),
        "size, not compressed": (f"{inspected['Size'] / 1e6:.0f} MB", True),
        "start": (f"{statistics.median(starts):.1f} s", True),
        "the jobs, once, over the events of the composition": (f"{took_s:.0f} s", True),
        "tables with rows": (", ".join(written), set(written) >= TABLES),
    }
    return reported(facts)
