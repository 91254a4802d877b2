package org.apache.kafka.streams.processor.internals;

import bellwether.topology.TopologyExporter;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.CopartitionedTopicsEnforcer;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Topologies built with the DSL and the Processor API, and what Kafka's own classes make of them: one JSON line each on
 * standard output. In Kafka's package to reach what it needs; nothing talks to a broker.
 *
 * Line: name, settings (of the application), counts {source topic: partitions}, text (Topology.describe()),
 * subtopologies {id: {sources, sinks, stores}} by full topic names, sinks being only those to repartition topics and
 * stores the changelogs, source topics that serve as one included; groups, the copartition groups; created
 * {internal topic: {partitions, configs}}, as the leader would create them. With the argument "export" a line is name and
 * file instead, what TopologyExporter writes.
 */
public final class TopologyCorpus {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String APPLICATION = "app";
    private static final Duration WINDOW = Duration.ofMinutes(5);
    private static final Duration GRACE = Duration.ofMinutes(1);
    private static final ValueJoiner<String, String, String> BOTH = (left, right) -> left + right;
    private static final Map<String, Integer> SIZES =
        Map.of("t", 3, "u", 3, "v", 3, "wide", 8, "global", 2, "in-a", 2, "in-b", 4, "my-repartition", 3);
    private static final Map<String, Object> OPTIMIZED = Map.of(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, "all");

    private static boolean exporting;

    private TopologyCorpus() {
    }

    public static void main(String[] arguments) throws Exception {
        exporting = arguments.length > 0;
        dsl("stateless", s -> s.stream("t").filter((k, v) -> true).to("out"));
        dsl("stateless, two subtopologies", s -> {
            s.stream("t").to("out");
            s.stream("wide").to("out");
        });
        dsl("sources of different sizes", s -> s.stream(List.of("t", "wide")).to("out"));
        aggregations();
        windows();
        suppressions();
        streamJoins();
        tableJoins();
        foreignKeys();
        repartitions();
        tables();
        globals();
        sources();
        configured();
        processors();
    }

    private static void aggregations() throws Exception {
        dsl("count by key", s -> stream(s, "t").groupByKey().count());
        dsl("count by another key", s -> stream(s, "t").groupBy((k, v) -> v).count().toStream().to("out"));
        dsl("count by another key, named", s -> stream(s, "t")
            .groupBy((k, v) -> v, Grouped.as("by-value")).count(Materialized.as("counts")));
        dsl("count by another key, only the store named", s -> stream(s, "t")
            .groupBy((k, v) -> v).count(Materialized.as("counts")));
        dsl("reduce and aggregate of one grouping", s -> {
            KGroupedStream<String, String> grouped = stream(s, "t").selectKey((k, v) -> v).groupByKey();
            grouped.reduce(BOTH::apply);
            grouped.aggregate(() -> "", (k, v, all) -> all + v);
        });
        both("two groupings behind one selectKey", s -> {
            KStream<String, String> keyed = stream(s, "t").selectKey((k, v) -> v);
            keyed.groupByKey().count();
            keyed.mapValues(v -> v).groupByKey().reduce(BOTH::apply);
        });
        dsl("cogroup", s -> {
            KGroupedStream<String, String> other = stream(s, "u").groupBy((k, v) -> v, Grouped.as("one"));
            stream(s, "t").groupBy((k, v) -> v, Grouped.as("other")).<String>cogroup((k, v, all) -> all + v)
                .cogroup(other, (k, v, all) -> all + v).aggregate(() -> "");
        });
        dsl("cogroup, windowed", s -> stream(s, "t").groupByKey().<String>cogroup((k, v, all) -> all + v)
            .windowedBy(tumbling()).aggregate(() -> ""));
        dsl("one table grouped anew", s -> s.<String, String>table("t").groupBy(KeyValue::pair).count());
        dsl("one table grouped anew, named", s -> s.<String, String>table("t")
            .groupBy(KeyValue::pair, Grouped.as("anew")).reduce(BOTH::apply, BOTH::apply, Materialized.as("reduced")));
    }

    private static void windows() throws Exception {
        dsl("tumbling windows", s -> stream(s, "t").groupByKey().windowedBy(tumbling()).count());
        dsl("hopping windows with grace, named", s -> stream(s, "t").groupBy((k, v) -> v).windowedBy(
            TimeWindows.ofSizeAndGrace(WINDOW, GRACE).advanceBy(GRACE)).count(Materialized.as("hops")));
        dsl("windows with a retention of their own", s -> stream(s, "t").groupByKey().windowedBy(tumbling())
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("long").withRetention(Duration.ofDays(3))));
        dsl("session windows", s -> stream(s, "t").groupByKey()
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(WINDOW, GRACE)).count());
        dsl("sliding windows", s -> stream(s, "t").groupByKey()
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(WINDOW, GRACE)).count(Materialized.as("slides")));
        dsl("windows in memory", s -> stream(s, "t").groupByKey().windowedBy(tumbling())
            .count(Materialized.as(Stores.inMemoryWindowStore("memory", WINDOW, WINDOW, false))));
        dsl("windows that emit when they close", s -> stream(s, "t").groupBy((k, v) -> v).windowedBy(tumbling())
            .emitStrategy(EmitStrategy.onWindowClose()).count().toStream().to("out"));
    }

    private static void suppressions() throws Exception {
        dsl("suppressed until windows close", s -> stream(s, "t").groupByKey().windowedBy(tumbling()).count()
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream().to("out"));
        dsl("suppressed, named", s -> stream(s, "t").groupByKey().count()
            .suppress(Suppressed.<String>untilTimeLimit(GRACE, Suppressed.BufferConfig.maxRecords(9)).withName("calm")));
        dsl("suppressed, without logging", s -> stream(s, "t").groupByKey().count()
            .suppress(Suppressed.untilTimeLimit(GRACE, Suppressed.BufferConfig.maxRecords(9).withLoggingDisabled())));
    }

    private static void streamJoins() throws Exception {
        dsl("stream with stream", s -> stream(s, "t").join(stream(s, "u"), BOTH, joining()));
        dsl("stream with stream, left", s -> stream(s, "t").leftJoin(stream(s, "u"), BOTH, joining()));
        dsl("stream with stream, outer, named", s -> stream(s, "t").outerJoin(
            stream(s, "u"), BOTH, joining(), StreamJoined.<String, String, String>as("kept").withName("matched")));
        dsl("stream with stream, both repartitioned", s -> stream(s, "t").selectKey((k, v) -> v).join(
            stream(s, "wide").selectKey((k, v) -> v), BOTH, joining()));
        dsl("stream with stream, repartitioned to the size of the other", s -> stream(s, "t").selectKey((k, v) -> v)
            .join(stream(s, "wide"), BOTH, joining(), StreamJoined.<String, String, String>with(
                Serdes.String(), Serdes.String(), Serdes.String()).withName("matched")));
        both("stream with itself", s -> {
            KStream<String, String> one = stream(s, "t");
            one.join(one, BOTH, joining());
        });
        dsl("stream with stream, without logging", s -> stream(s, "t").join(
            stream(s, "u"), BOTH, joining(), StreamJoined.<String, String, String>as("quiet").withLoggingDisabled()));
        dsl("stream with stream, in memory", s -> stream(s, "t").join(stream(s, "u"), BOTH, joining(),
            StreamJoined.<String, String, String>with(
                Stores.inMemoryWindowStore("left", WINDOW.multipliedBy(2).plus(GRACE), WINDOW.multipliedBy(2), true),
                Stores.inMemoryWindowStore("right", WINDOW.multipliedBy(2).plus(GRACE), WINDOW.multipliedBy(2), true))));
        dsl("three streams", s -> stream(s, "t").join(stream(s, "u"), BOTH, joining())
            .selectKey((k, v) -> v).join(stream(s, "v"), BOTH, joining()));
        dsl("stream with table", s -> stream(s, "t").join(s.<String, String>table("u"), BOTH));
        both("stream with table, repartitioned to its size", s -> stream(s, "t").selectKey((k, v) -> v)
            .leftJoin(s.<String, String>table("wide"), BOTH));
        dsl("stream with table, named", s -> stream(s, "t").selectKey((k, v) -> v)
            .join(s.table("u", Materialized.as("known")), BOTH, Joined.as("enriched")));
        dsl("stream with versioned table, with grace", s -> stream(s, "t").join(
            s.table("u", Materialized.as(Stores.persistentVersionedKeyValueStore("known", Duration.ofDays(1)))),
            BOTH, Joined.<String, String, String>as("enriched").withGracePeriod(GRACE)));
        dsl("all steps of stream with table named", s -> stream(s, "t").selectKey((k, v) -> v, Named.as("key"))
            .join(s.table("wide", Consumed.as("look-up"), Materialized.as("known")), BOTH, Joined.as("enriched")));
        dsl("repartitioned stream with table, named", s -> stream(s, "t").repartition(Repartitioned.as("spread"))
            .join(s.<String, String>table("wide"), BOTH, Joined.as("enriched")));
        dsl("repartitioned stream that looks into a table", s -> {
            s.table("wide", Materialized.as("known"));
            stream(s, "t").repartition(Repartitioned.as("spread")).process(() -> new Idle<>(), "known").to("out");
        });
        both("stream with table and aggregation behind one key", s -> {
            KStream<String, String> keyed = stream(s, "t").selectKey((k, v) -> v);
            keyed.join(s.<String, String>table("u"), BOTH).groupByKey().windowedBy(tumbling()).count();
            keyed.groupByKey().count();
        });
    }

    private static void tableJoins() throws Exception {
        both("table with table, only the result kept", s -> s.<String, String>table("t")
            .join(s.<String, String>table("u"), BOTH, Materialized.as("joined")));
        both("table with table", s -> s.<String, String>table("t").join(s.<String, String>table("u"), BOTH));
        dsl("table with table, left and outer, kept", s -> s.<String, String>table("t")
            .leftJoin(s.<String, String>table("u"), BOTH, Materialized.as("left"))
            .outerJoin(s.<String, String>table("v"), BOTH, Named.as("all"), Materialized.as("outer")));
        dsl("table with aggregation", s -> s.<String, String>table("wide")
            .join(stream(s, "t").groupBy((k, v) -> v).reduce(BOTH::apply), BOTH));
    }

    private static void foreignKeys() throws Exception {
        both("foreign key", s -> s.<String, String>table("t")
            .join(s.<String, String>table("wide"), value -> value, BOTH));
        dsl("foreign key, left, named", s -> s.<String, String>table("t").leftJoin(
            s.<String, String>table("u"), value -> value, BOTH, TableJoined.as("looked-up"), Materialized.as("found")));
        dsl("foreign key twice", s -> s.<String, String>table("t")
            .join(s.<String, String>table("u"), value -> value, BOTH)
            .join(s.<String, String>table("wide"), value -> value, BOTH).toStream().to("out"));
        dsl("foreign key of an aggregation", s -> stream(s, "t").groupBy((k, v) -> v).reduce(BOTH::apply)
            .leftJoin(s.<String, String>table("wide"), value -> value, BOTH));
    }

    private static void repartitions() throws Exception {
        dsl("repartition", s -> stream(s, "t").repartition().to("out"));
        dsl("repartition, named, with a number", s -> stream(s, "t")
            .repartition(Repartitioned.<String, String>as("spread").withNumberOfPartitions(7)).groupByKey().count());
        dsl("repartition, with a number, joined", s -> stream(s, "t")
            .repartition(Repartitioned.<String, String>as("spread").withNumberOfPartitions(8))
            .join(stream(s, "u").selectKey((k, v) -> v), BOTH, joining()));
        dsl("repartition twice in a row", s -> stream(s, "t")
            .repartition(Repartitioned.<String, String>as("first").withNumberOfPartitions(5))
            .repartition(Repartitioned.as("second")).groupBy((k, v) -> v).count(Materialized.as("third")));
        dsl("merged streams, grouped", s -> stream(s, "t").merge(stream(s, "wide")).groupBy((k, v) -> v).count());
        both("merged repartitions", s -> {
            KStream<String, String> keyed = stream(s, "t").map((k, v) -> KeyValue.pair(v, k));
            keyed.groupByKey(Grouped.as("one")).count(Materialized.as("counts"));
            keyed.groupByKey(Grouped.as("two")).windowedBy(tumbling()).count(Materialized.as("windowed"));
        });
        dsl("branches", s -> {
            BranchedKStream<String, String> split = stream(s, "t").split(Named.as("branch-"));
            split.branch((k, v) -> true);
            Map<String, KStream<String, String>> all = split.defaultBranch();
            all.values().forEach(one -> one.groupBy((k, v) -> v).count());
        });
        dsl("through a topic of the user's", s -> {
            stream(s, "t").to("my-repartition");
            stream(s, "my-repartition").groupByKey().count();
        });
    }

    private static void tables() throws Exception {
        both("table", s -> s.table("t", Materialized.as("kept")));
        both("table, not kept", s -> s.table("t").toStream().to("out"));
        both("table, without logging", s -> s.table("t",
            Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("quiet").withLoggingDisabled()));
        both("table, kept by what follows", s -> s.<String, String>table("t").filter((k, v) -> true)
            .mapValues(v -> v, Materialized.as("mapped")).filter((k, v) -> true, Materialized.as("filtered")));
        both("versioned table", s -> s.table("t",
            Materialized.as(Stores.persistentVersionedKeyValueStore("history", Duration.ofHours(2)))));
        both("stream to table", s -> stream(s, "t").toTable(Materialized.as("kept")));
        dsl("stream to table, repartitioned", s -> stream(s, "t").selectKey((k, v) -> v).toTable());
        dsl("tables in memory", s -> s.table("t", Materialized.as(Stores.inMemoryKeyValueStore("memory"))));
        dsl("least recently used", s -> s.table("t", Materialized.as(Stores.lruMap("recent", 9))));
    }

    private static void globals() throws Exception {
        dsl("stream with global table", s -> {
            GlobalKTable<String, String> global = s.globalTable("global", Materialized.as("everywhere"));
            stream(s, "t").join(global, (k, v) -> v, BOTH).groupByKey().count();
        });
        dsl("global table first", s -> {
            s.globalTable("global");
            stream(s, "t").groupBy((k, v) -> v).count();
        });
        dsl("global store", s -> {
            s.addGlobalStore(keyValues("everywhere").withLoggingDisabled(), "global",
                Consumed.with(Serdes.String(), Serdes.String()), () -> new Swallow<>());
            stream(s, "t").process(() -> new Idle<>(), Named.as("look")).to("out");
        });
    }

    private static void sources() throws Exception {
        dsl("pattern", s -> s.stream(Pattern.compile("in-[a-z]+")).to("out"));
        dsl("pattern, grouped", s -> s.<String, String>stream(Pattern.compile("in-[a-z]+")).groupBy((k, v) -> v).count());
        dsl("topics chosen at run time", s -> stream(s, "t").groupBy((k, v) -> v).count().toStream()
            .to(new ByValue()));
        dsl("several subtopologies", s -> {
            stream(s, "t").groupByKey().count();
            stream(s, "u").groupBy((k, v) -> v).windowedBy(tumbling()).count();
            s.table("wide", Materialized.as("wide-table"));
            s.stream("v").to("out");
        });
        dsl("all steps named", s -> s.<String, String>stream("t", Consumed.as("read"))
            .filter((k, v) -> true, Named.as("sift")).selectKey((k, v) -> v, Named.as("key"))
            .groupByKey(Grouped.as("grouped")).aggregate(() -> "", (k, v, all) -> all, Named.as("add"),
                Materialized.as("sums")).toStream(Named.as("stream")).to("out"));
    }

    private static void configured() throws Exception {
        dsl("a changelog with configs", s -> stream(s, "t").groupByKey().count(Materialized
            .<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
            .withLoggingEnabled(Map.of("min.insync.replicas", "2", "segment.ms", "60000"))));
        dsl("a windowed changelog with configs", s -> stream(s, "t").groupByKey().windowedBy(tumbling())
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windowed")
                .withLoggingEnabled(Map.of("cleanup.policy", "delete"))));
        dsl("an aggregation without logging", s -> stream(s, "t").groupBy((k, v) -> v).count(
            Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("quiet").withLoggingDisabled()));
        record("configs of all internal topics",
            Map.of("topic.min.insync.replicas", "2", "topic.segment.bytes", "1048576"), built(Map.of(), s ->
                stream(s, "t").groupBy((k, v) -> v).windowedBy(tumbling()).count()));
        Map<String, Object> longer = Map.of(StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG, 1000L);
        record("less additional retention", longer, built(longer, s ->
            stream(s, "t").groupByKey().windowedBy(tumbling()).count()));
        Map<String, Object> memory = Map.of(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
            "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers");
        record("all stores in memory", memory, built(memory, s ->
            stream(s, "t").groupBy((k, v) -> v).windowedBy(tumbling()).count()));
        record("a join in memory", memory, built(memory, s ->
            stream(s, "t").leftJoin(stream(s, "u"), BOTH, joining())));
    }

    private static void processors() throws Exception {
        record("processor", Map.of(), new Topology().addSource("in", "t").addProcessor("work", IDLE, "in")
            .addStateStore(keyValues("store"), "work").addSink("done", "out", "work"));
        record("processors that share a store", Map.of(), new Topology().addSource("in", "t").addSource("more", "wide")
            .addProcessor("one", IDLE, "in").addProcessor("two", IDLE, "more").addStateStore(keyValues("store"), "one", "two"));
        record("processor with stores of every kind", Map.of(), new Topology().addSource("in", "t")
            .addProcessor("work", IDLE, "in")
            .addStateStore(keyValues("plain"), "work")
            .addStateStore(keyValues("quiet").withLoggingDisabled(), "work")
            .addStateStore(Stores.windowStoreBuilder(Stores.persistentWindowStore("windows", WINDOW, GRACE, true),
                Serdes.String(), Serdes.String()), "work")
            .addStateStore(Stores.sessionStoreBuilder(Stores.persistentSessionStore("sessions", WINDOW),
                Serdes.String(), Serdes.String()), "work")
            .addStateStore(Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore("history", WINDOW),
                Serdes.String(), Serdes.String()), "work"));
        record("processor with a read-only store", Map.of(), new Topology().addSource("in", "t")
            .addProcessor("work", IDLE, "in")
            .addReadOnlyStateStore(keyValues("known").withLoggingDisabled(), "known-source", null, null, "u", "known-fill",
                () -> new Swallow<String, String>())
            .connectProcessorAndStateStores("work", "known"));
        dsl("streams that share a store", s -> {
            s.addStateStore(keyValues("store"));
            stream(s, "t").process(() -> new Idle<>(), "store");
            stream(s, "wide").process(() -> new Idle<>(), "store").groupBy((k, v) -> "").count();
        });
        dsl("values processed with a store", s -> {
            s.addStateStore(keyValues("store"));
            stream(s, "t").selectKey((k, v) -> v).repartition().processValues(() -> new Values(), "store").to("out");
        });
    }

    private static final ProcessorSupplier<Object, Object, Object, Object> IDLE = () -> new Idle<>();

    private static KStream<String, String> stream(StreamsBuilder builder, String topic) {
        return builder.stream(topic);
    }

    private static TimeWindows tumbling() {
        return TimeWindows.ofSizeWithNoGrace(WINDOW);
    }

    private static JoinWindows joining() {
        return JoinWindows.ofTimeDifferenceAndGrace(WINDOW, GRACE);
    }

    private static StoreBuilder<KeyValueStore<String, String>> keyValues(String name) {
        return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), Serdes.String(), Serdes.String());
    }

    private static void both(String name, Consumer<StreamsBuilder> steps) throws Exception {
        dsl(name, steps);
        record(name + ", optimized", OPTIMIZED, built(OPTIMIZED, steps));
    }

    private static void dsl(String name, Consumer<StreamsBuilder> steps) throws Exception {
        record(name, Map.of(), built(Map.of(), steps));
    }

    private static Topology built(Map<String, Object> settings, Consumer<StreamsBuilder> steps) {
        StreamsBuilder builder = new StreamsBuilder(new org.apache.kafka.streams.TopologyConfig(config(settings)));
        steps.accept(builder);
        Properties properties = new Properties();
        properties.putAll(settings);
        return builder.build(properties);
    }

    private static StreamsConfig config(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        all.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        all.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        all.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        return new StreamsConfig(all);
    }

    private static void record(String name, Map<String, Object> settings, Topology topology) throws Exception {
        StreamsConfig config = config(settings);
        if (exporting) {
            Properties properties = new Properties();
            properties.putAll(config.originals());
            System.out.println(JSON.writeValueAsString(Map.of("name", name, "file", TopologyExporter.export(topology, properties))));
            return;
        }
        String text = topology.describe().toString();
        Field field = Topology.class.getDeclaredField("internalTopologyBuilder");
        field.setAccessible(true);
        TopologyMetadata metadata = new TopologyMetadata((InternalTopologyBuilder) field.get(topology), config);
        metadata.buildAndRewriteTopology();
        if (metadata.usesPatternSubscription()) {
            Pattern pattern = metadata.sourceTopicPattern();
            Set<String> found = new TreeSet<>(SIZES.keySet());
            found.removeIf(topic -> !pattern.matcher(topic).matches());
            metadata.addSubscribedTopicsFromMetadata(found, null);
        }
        Maker maker = new Maker(config);
        Cluster cluster = cluster();
        RepartitionTopics repartition = new RepartitionTopics(
            metadata, maker, new CopartitionedTopicsEnforcer(""), cluster, "");
        repartition.setup();
        Map<Subtopology, InternalTopologyBuilder.TopicsInfo> parts = new TreeMap<>(
            (one, other) -> Integer.compare(one.nodeGroupId, other.nodeGroupId));
        metadata.topologyToSubtopologyTopicsInfoMap().values().forEach(parts::putAll);
        Map<Subtopology, Set<TaskId>> tasks = new HashMap<>();
        parts.forEach((part, topics) -> tasks.put(part, tasks(part, topics, maker)));
        new ChangelogTopics(maker, parts, tasks, "").setup();

        Map<String, Object> line = new LinkedHashMap<>();
        line.put("name", name);
        line.put("settings", new TreeMap<>(settings));
        Map<String, Integer> counts = new TreeMap<>();
        Map<String, Object> described = new LinkedHashMap<>();
        parts.forEach((part, topics) -> {
            topics.sourceTopics.stream().filter(SIZES::containsKey).forEach(topic -> counts.put(topic, SIZES.get(topic)));
            Set<String> sinks = new TreeSet<>(topics.sinkTopics);
            sinks.retainAll(maker.made.keySet());
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("sources", new TreeSet<>(topics.sourceTopics));
            row.put("sinks", sinks);
            row.put("stores", new TreeSet<>(topics.stateChangelogTopics.keySet()));
            described.put(String.valueOf(part.nodeGroupId), row);
        });
        line.put("counts", counts);
        line.put("subtopologies", described);
        List<Set<String>> groups = new ArrayList<>();
        metadata.copartitionGroups().forEach(group -> groups.add(new TreeSet<>(group)));
        groups.sort((one, other) -> one.toString().compareTo(other.toString()));
        line.put("groups", groups);
        line.put("created", maker.made);
        line.put("text", text);
        System.out.println(JSON.writeValueAsString(line));
    }

    private static Set<TaskId> tasks(Subtopology part, InternalTopologyBuilder.TopicsInfo topics, Maker maker) {
        int most = topics.sourceTopics.stream().mapToInt(maker::size).max().orElse(0);
        Set<TaskId> tasks = new TreeSet<>();
        for (int partition = 0; partition < most; partition++) {
            tasks.add(new TaskId(part.nodeGroupId, partition));
        }
        return tasks;
    }

    private static Cluster cluster() {
        Node node = new Node(1, "nowhere", 1);
        Node[] replicas = {node};
        List<PartitionInfo> partitions = new ArrayList<>();
        SIZES.forEach((topic, count) -> {
            for (int partition = 0; partition < count; partition++) {
                partitions.add(new PartitionInfo(topic, partition, node, replicas, replicas));
            }
        });
        return new Cluster("cluster", List.of(node), partitions, Set.of(), Set.of());
    }

    /** Takes note of what it is to create. */
    private static final class Maker extends InternalTopicManager {
        private final Map<String, Map<String, Object>> made = new TreeMap<>();
        private final StreamsConfig config;

        Maker(StreamsConfig config) {
            super(Time.SYSTEM, null, config);
            this.config = config;
        }

        @Override
        public Set<String> makeReady(Map<String, InternalTopicConfig> topics) {
            Map<String, String> defaults = new HashMap<>();
            config.originalsWithPrefix(StreamsConfig.TOPIC_PREFIX).forEach((k, v) -> defaults.put(k, v.toString()));
            long more = config.getLong(StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG);
            topics.forEach((topic, wanted) -> {
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("partitions", wanted.numberOfPartitions().get());
                row.put("configs", new TreeMap<>(wanted.properties(defaults, more)));
                made.put(topic, row);
            });
            return topics.keySet();
        }

        private int size(String topic) {
            return made.containsKey(topic) ? (Integer) made.get(topic).get("partitions") : SIZES.get(topic);
        }
    }

    /** The description prints it: what a lambda is called changes from run to run. */
    private static final class ByValue implements TopicNameExtractor<String, Long> {
        @Override
        public String extract(String key, Long value, RecordContext context) {
            return "out-" + value;
        }

        @Override
        public String toString() {
            return "ByValue";
        }
    }

    private static final class Idle<K, V> implements Processor<K, V, K, V> {
        @Override
        public void process(Record<K, V> record) {
        }
    }

    private static final class Swallow<K, V> implements Processor<K, V, Void, Void> {
        @Override
        public void process(Record<K, V> record) {
        }
    }

    private static final class Values implements FixedKeyProcessor<String, String, String> {
        @Override
        public void process(FixedKeyRecord<String, String> record) {
        }
    }
}
