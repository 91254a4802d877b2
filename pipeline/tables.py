"""The tables. The streaming jobs and a batch recomputation compute them by the same functions.

Sums are sums of whole numbers, so that the order of rows cannot change a result: a stream that was killed and restarted
and a batch over the same records give equal rows. Every table has `day` and `group`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from bellwether_kafka.coordinator.events import OBSERVED, PLANNED, SchemaSet
from bellwether_kafka.pipeline.source import AMOUNT_MAX, amount_of, events

WATERMARK = "30 minutes"
LAG_WINDOW, COST_WINDOW, CHURN_WINDOW = "5 minutes", "1 hour", "5 minutes"
STORM_REBALANCES = 5
WEIGHT_WINDOWS = 12  # the most windows behind a weight
ERROR_WINDOWS_MIN = 4  # fewer do not show how much rates vary
MEDIAN_ERROR = 1.2533  # the standard error of a median relative to that of a mean
WHOLE = "decimal(38,0)"


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the tables. `price_per_gb`: the price of a gigabyte that crosses racks. `watermark`: how long windows
    wait for late events. `rate_window`: the window of the tables rates and weights."""

    price_per_gb: float = 0.01
    watermark: str = WATERMARK
    rate_window: str = "5 minutes"


def lag_trends(raw: DataFrame, schemas: SchemaSet, options: Options) -> DataFrame:
    """Returns, per window and partition (or standby copy): lag percentiles, slope in records per second, seconds to
    catch up.

    `catch_up_s` is null if lag does not shrink; `unknown` counts samples without a lag.
    """
    rows = events(raw, "lag", schemas).withWatermark("at", options.watermark)
    rows = rows.select("at", "group", "sampled_at_ms", F.explode("entries").alias("e"))
    rows = rows.select("at", "group", "sampled_at_ms", "e.*").withColumn("lag", amount_of("lag"))
    rows = rows.withColumn("known", F.when(F.col("lag") >= 0, F.col("lag")))
    window = F.window("at", LAG_WINDOW)
    # Time within the window in whole milliseconds: small numbers, and exact.
    rows = rows.withColumn("t", F.when(F.col("lag") >= 0, F.col("sampled_at_ms") % 300_000))
    x, t = F.col("known").cast(WHOLE), F.col("t").cast(WHOLE)
    grouped = rows.groupBy(window.alias("w"), "group", "topic", "partition", "task", "role", "member").agg(
        F.count("known").alias("samples"),
        F.count(F.when(F.col("lag") < 0, 1)).alias("unknown"),
        F.min("known").alias("lag_min"),
        F.max("known").alias("lag_max"),
        F.expr("percentile(known, array(0.5, 0.95))").alias("p"),
        F.max(F.when(F.col("lag") >= 0, F.struct("sampled_at_ms", "known"))).alias("last"),
        F.sum(t).alias("st"),
        F.sum(x).alias("sx"),
        F.sum((t * t).cast(WHOLE)).alias("stt"),
        F.sum((t * x).cast(WHOLE)).alias("stx"),
    )
    n, st, sx, stt, stx = (F.col(c).cast("double") for c in ("samples", "st", "sx", "stt", "stx"))
    below = n * stt - st * st
    slope = F.when(below > 0, (n * stx - st * sx) / below * 1000)
    trended = grouped.withColumn("slope_per_s", slope).withColumn("lag_last", F.col("last.known"))
    catch_up = F.when(F.col("lag_last") == 0, 0.0).when(
        F.col("slope_per_s") < 0, F.col("lag_last") / -F.col("slope_per_s")
    )
    return _dated(trended).select(
        *KEYS,
        "topic",
        "partition",
        "task",
        "role",
        "member",
        "samples",
        "unknown",
        "lag_min",
        F.col("p")[0].alias("lag_p50"),
        F.col("p")[1].alias("lag_p95"),
        "lag_max",
        "lag_last",
        "slope_per_s",
        catch_up.alias("catch_up_s"),
    )


def rack_costs(raw: DataFrame, schemas: SchemaSet, options: Options) -> DataFrame:
    """Returns, per hour, group, topic and pair of racks: records, bytes, and the cost of what crossed.

    Readers use a replica in their own rack if there is one (KIP-392), so only the rest crosses. Readers or leaders
    without a rack have the rack "". `unknown` counts samples with unknown bytes.
    """
    rows = _traffic(raw, schemas, options)
    to = F.coalesce("e.rack", F.lit(""))
    leader = F.coalesce("e.leader_rack", F.lit(""))
    near = F.array_contains("e.replica_racks", F.col("e.rack"))
    pairs = rows.select(
        "at",
        "group",
        F.col("e.topic").alias("topic"),
        F.when(near, to).otherwise(leader).alias("from_rack"),
        to.alias("to_rack"),
        amount_of("e.records").alias("records"),
        amount_of("e.bytes").alias("bytes"),
    )
    grouped = pairs.groupBy(F.window("at", COST_WINDOW).alias("w"), "group", "topic", "from_rack", "to_rack").agg(
        F.sum(F.greatest("records", F.lit(0))).alias("records"),
        F.sum(F.greatest("bytes", F.lit(0))).alias("bytes"),
        F.count(F.when(F.col("bytes") < 0, 1)).alias("unknown"),
    )
    named = (F.col("from_rack") != "") & (F.col("to_rack") != "")
    crossed = named & (F.col("from_rack") != F.col("to_rack"))
    cost = F.when(crossed, F.col("bytes") / 1e9 * options.price_per_gb).otherwise(0.0)
    return _dated(grouped.withColumn("crossed", crossed).withColumn("cost", cost)).select(
        *KEYS, "topic", "from_rack", "to_rack", "crossed", "records", "bytes", "unknown", "cost"
    )


def rebalances(raw: DataFrame, schemas: SchemaSet, options: Options) -> DataFrame:
    """Returns, per window, group and cause: rebalances, moves, and how long the leader's part of them took. `storm`
    marks a cause that alone made five rebalances or more in one window. Moves and pauses are sums of the known
    values."""
    rows = events(raw, "decision", schemas).withWatermark("at", options.watermark)
    pause_ms = F.col("metadata_ms") + F.col("plan_ms") + F.col("sync_ms")
    pause_us = (F.when(pause_ms.between(0, 1e9), pause_ms) * 1000).cast("long")
    grouped = (
        rows.withColumn("pause_us", pause_us)
        .groupBy(F.window("at", CHURN_WINDOW).alias("w"), "group", F.col("cause_kind").alias("cause"))
        .agg(
            F.count("*").alias("rebalances"),
            *(_sum(name).alias(name) for name in ("moved", "new", "lost", "withheld")),
            F.sum("pause_us").alias("pause_us"),
            F.max("pause_us").alias("pause_us_max"),
            F.max("members").alias("members_max"),
            F.count(F.when(~F.col("source").isin(PLANNED, OBSERVED), 1)).alias("fallbacks"),
            F.max(F.struct("decided_at_ms", "generation", "cause")).alias("last"),
        )
    )
    marked = grouped.withColumn("storm", F.col("rebalances") >= STORM_REBALANCES)
    return _dated(marked.withColumn("last_sentence", F.col("last.cause")).drop("last"))


def _sum(amount: str) -> Column:
    """Returns the sum of the known amounts: unknown ones are negative."""
    return F.sum(F.greatest(F.least(amount, F.lit(AMOUNT_MAX)), F.lit(0)))


def culprits(raw: DataFrame, schemas: SchemaSet, options: Options) -> DataFrame:
    """Returns, per window, group and member: how often it came, left, restarted or changed its subscription."""
    rows = events(raw, "membership", schemas).withWatermark("at", options.watermark)
    grouped = rows.groupBy(F.window("at", CHURN_WINDOW).alias("w"), "group", "member", "change").agg(
        F.count("*").alias("times"), F.max("generation").alias("generation_last")
    )
    return _dated(grouped)


def rates(raw: DataFrame, schemas: SchemaSet, options: Options) -> DataFrame:
    """Returns, per window and partition: bytes and records per second, from samples with known bytes."""
    rows = (
        _traffic(raw, schemas, options)
        .where(
            (amount_of("e.bytes") >= 0) & (amount_of("e.records") >= 0) & (F.col("sampled_at_ms") > F.col("since_ms"))
        )
        .where(F.col("since_ms") >= 0)
    )
    grouped = rows.groupBy(
        F.window("at", options.rate_window).alias("w"),
        "group",
        F.col("e.topic").alias("topic"),
        F.col("e.partition").alias("partition"),
    ).agg(
        F.sum("e.bytes").alias("bytes"),
        F.sum("e.records").alias("records"),
        F.sum(F.col("sampled_at_ms") - F.col("since_ms")).alias("ms"),
        F.max("sampled_at_ms").alias("sampled_at_ms"),
    )
    return _dated(grouped).select(
        *KEYS,
        "topic",
        "partition",
        "sampled_at_ms",
        (F.col("bytes") * 1000.0 / F.col("ms")).alias("bytes_per_s"),
        (F.col("records") * 1000.0 / F.col("ms")).alias("records_per_s"),
    )


def weights(table: DataFrame) -> DataFrame:
    """Computes from `rates` one weight per partition: the median of its latest windows, scaled by the daily pattern.

    The pattern is the median of its windows in the coming hour of the day over the median of all its windows, limited
    to 1/4 to 4, if that hour is known from at least three days. Groups that share a topic see the same traffic, so a
    window counts once. `error` is the standard error of `bytes_per_s` in the same unit, from how much the windows vary;
    null if they are too few. Windows of the coming hour count once for each day, because those of a day are alike.
    """
    once = table.groupBy("window_start", "topic", "partition").agg(
        F.max("bytes_per_s").alias("bytes_per_s"),
        F.max("records_per_s").alias("records_per_s"),
        F.max("sampled_at_ms").alias("sampled_at_ms"),
    )
    newest = once.agg(F.max("window_start").alias("newest"))
    rows = once.crossJoin(F.broadcast(newest)).withColumn("hour", F.hour("window_start"))
    next_hour = F.hour(F.col("newest") + F.expr("interval 1 hour"))
    latest = F.row_number().over(Window.partitionBy("topic", "partition").orderBy(F.col("window_start").desc()))
    numbered = rows.withColumn("n", latest).withColumn("due", F.col("hour") == next_hour)
    recent = F.col("n") <= WEIGHT_WINDOWS
    grouped = numbered.groupBy("topic", "partition").agg(
        F.median(F.when(recent, F.col("bytes_per_s"))).alias("bytes_now"),
        F.median(F.when(recent, F.col("records_per_s"))).alias("records_now"),
        F.median("bytes_per_s").alias("bytes_all"),
        F.median(F.when(F.col("due"), F.col("bytes_per_s"))).alias("bytes_due"),
        F.count_distinct(F.when(F.col("due"), F.to_date("window_start"))).alias("days"),
        F.max("sampled_at_ms").alias("estimated_at_ms"),
        F.count(F.when(recent, 1)).cast("int").alias("windows"),
        F.stddev_samp(F.when(recent, F.col("bytes_per_s"))).alias("spread_now"),
        F.stddev_samp(F.when(F.col("due"), F.col("bytes_per_s"))).alias("spread_due"),
    )
    patterned = (F.col("days") >= 3) & (F.col("bytes_all") > 0)
    pattern = F.when(
        patterned,
        F.least(F.greatest(F.col("bytes_due") / F.col("bytes_all"), F.lit(0.25)), F.lit(4.0)),
    ).otherwise(F.lit(1.0))
    of_now = pattern * F.col("spread_now") / F.sqrt("windows")
    of_pattern = F.col("bytes_now") / F.col("bytes_all") * F.col("spread_due") / F.sqrt("days")
    error = MEDIAN_ERROR * F.hypot(of_now, F.when(patterned, of_pattern).otherwise(F.lit(0.0)))
    return grouped.select(
        "topic",
        "partition",
        (F.col("bytes_now") * pattern).alias("bytes_per_s"),
        (F.col("records_now") * pattern).alias("records_per_s"),
        "estimated_at_ms",
        "windows",
        F.when(F.col("windows") >= ERROR_WINDOWS_MIN, error).alias("error"),
    )


Table = Callable[[DataFrame, SchemaSet, Options], DataFrame]
TABLES: dict[str, Table] = {
    "lag_trends": lag_trends,
    "rack_costs": rack_costs,
    "rebalances": rebalances,
    "culprits": culprits,
    "rates": rates,
}
KEYS = ("day", "group", "window_start", "window_end")


def _traffic(raw: DataFrame, schemas: SchemaSet, options: Options) -> DataFrame:
    rows = events(raw, "traffic", schemas).withWatermark("at", options.watermark)
    return rows.select("at", "group", "since_ms", "sampled_at_ms", F.explode("entries").alias("e"))


def _dated(grouped: DataFrame) -> DataFrame:
    """Replaces the window `w` by KEYS, followed by all other columns."""
    window = F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end")
    others = [name for name in grouped.columns if name not in ("w", "group")]
    return grouped.select(F.to_date("w.start").alias("day"), "group", *window, *others)
