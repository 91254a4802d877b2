"""The Spark session of the jobs: local on this machine, or as spark-submit configured it."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import SparkSession

PARQUET, DELTA = "parquet", "delta"
JARS = Path(__file__).resolve().parent.parent / ".cache" / "spark" / "jars"
DELTA_JARS = JARS.with_name("delta")
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def session(
    name: str,
    *,
    master: str | None = None,
    shuffle_partitions: int | None = None,
    table_format: str = PARQUET,
    more: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """Returns the session; times are UTC. With `master` (such as "local[2]") it has the jars of `make setup-pipeline`,
    and those of `make setup-delta` for tables in that format; without it, spark-submit provides everything. `more` are
    Spark properties."""
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    if master is not None:
        # Otherwise workers run the `python3` on the PATH, which may lack Bellwether's packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # In another locale, the JVM cannot name the folders of groups with other letters than those of ASCII.
        locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
        if "utf" not in locale.lower():
            os.environ["LC_ALL"] = "C.UTF-8"
        builder = (
            builder.master(master)
            .config("spark.jars", ",".join(map(str, _jars(table_format))))
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "2g")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
        )
    if shuffle_partitions is not None:
        builder = builder.config("spark.sql.shuffle.partitions", str(shuffle_partitions))
    for property_name, value in {**(_DELTA if table_format == DELTA else {}), **more}.items():
        builder = builder.config(property_name, value)
    return builder.getOrCreate()


def _jars(table_format: str) -> list[Path]:
    return sorted([*JARS.glob("*.jar"), *(DELTA_JARS.glob("*.jar") if table_format == DELTA else ())])
