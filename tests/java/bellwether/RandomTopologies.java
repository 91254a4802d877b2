package org.apache.kafka.streams.processor.internals;

import bellwether.topology.TopologyExporter;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Random topologies, each exported by TopologyExporter and read from the builder of an equal one, as the partition assignor
 * would read it; a JSON line each on standard output. Compiles from Kafka Streams 2.8 to 4.4. Arguments: how many.
 *
 * Line: seed, subscribed (topics that patterns find), parts {id: {sources, sinks, made {repartition topic: [partitions,
 * configs]}, changelogs {topic: configs}}}, groups, memory (names of stores that are not persistent), file.
 */
public final class RandomTopologies {
    private static final int STEPS_MAX = 14;
    private static final int KINDS = 17;
    private static final String[] FOUND = {"-a", "-b"};

    private final Random random;
    private final StreamsBuilder builder = new StreamsBuilder();
    private final List<KStream<String, String>> streams = new ArrayList<>();
    private final List<KTable<String, String>> tables = new ArrayList<>();
    private final Set<String> subscribed = new TreeSet<>();
    private int topics;

    private RandomTopologies(long seed) {
        random = new Random(seed);
        streams.add(builder.stream(topic()));
        tables.add(builder.table(topic()));
        for (int steps = 3 + random.nextInt(STEPS_MAX); steps > 0; steps--) {
            step(random.nextInt(KINDS));
        }
    }

    public static void main(String[] arguments) throws Exception {
        int wanted = Integer.parseInt(arguments[0]);
        for (long seed = 1; wanted > 0; seed++) {
            Map<String, Object> line = line(seed);
            if (line != null) {
                System.out.println(json(line));
                wanted--;
            }
        }
    }

    /** Null where Kafka Streams itself refuses this one. */
    private static Map<String, Object> line(long seed) throws Exception {
        Properties properties = properties(seed);
        Topology topology;
        Topology equal;
        RandomTopologies made;
        try {
            topology = new RandomTopologies(seed).builder.build(properties);
            made = new RandomTopologies(seed);
            equal = made.builder.build(properties);
            builder(equal).rewriteTopology(new StreamsConfig(properties)).buildTopology();
        } catch (RuntimeException refused) {
            return null;
        }
        String before = topology.describe().toString();
        String file = TopologyExporter.export(topology, properties);
        if (!file.equals(TopologyExporter.export(topology, properties)) || !before.equals(topology.describe().toString())) {
            throw new AssertionError("the export has changed the topology of seed " + seed);
        }
        Map<String, Object> line = truth(builder(equal), new StreamsConfig(properties), made.subscribed);
        line.put("seed", String.valueOf(seed));
        line.put("file", file);
        return line;
    }

    private static InternalTopologyBuilder builder(Topology topology) throws Exception {
        Field field = Topology.class.getDeclaredField("internalTopologyBuilder");
        field.setAccessible(true);
        return (InternalTopologyBuilder) field.get(topology);
    }

    private static Properties properties(long seed) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        if (seed % 2 == 0) {
            properties.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, "all");
        }
        if (seed % 3 == 0) {
            properties.put("topic.min.insync.replicas", "2");
            properties.put(StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG, "1000");
        }
        return properties;
    }

    private void step(int kind) {
        KStream<String, String> stream = streams.get(random.nextInt(streams.size()));
        KTable<String, String> table = tables.get(random.nextInt(tables.size()));
        switch (kind) {
            case 0 -> streams.add(builder.stream(topic()));
            case 1 -> tables.add(builder.table(topic(), kept()));
            case 2 -> streams.add(stream.selectKey((k, v) -> v));
            case 3 -> stream.groupByKey().count();
            case 4 -> tables.add(stream.groupBy((k, v) -> v, grouped()).reduce((l, r) -> r, kept()));
            case 5 -> stream.groupBy((k, v) -> v).windowedBy(tumbling()).count();
            case 6 -> stream.groupByKey().windowedBy(sessions()).count();
            case 7 -> streams.add(stream.join(another(), (l, r) -> l + r, joining()));
            case 8 -> streams.add(stream.outerJoin(another(), (l, r) -> l + r, joining()));
            case 9 -> streams.add(stream.leftJoin(table, (l, r) -> l + r));
            case 10 -> tables.add(table.join(tables.get(random.nextInt(tables.size())), (l, r) -> l + r));
            case 11 -> tables.add(table.leftJoin(tables.get(random.nextInt(tables.size())), v -> v, (l, r) -> l + r));
            case 12 -> streams.add(random.nextBoolean() ? stream.repartition()
                : stream.repartition(Repartitioned.<String, String>as(name()).withNumberOfPartitions(1 + random.nextInt(9))));
            case 13 -> tables.add(table.suppress(Suppressed.untilTimeLimit(
                Duration.ofMinutes(1), Suppressed.BufferConfig.unbounded())));
            case 14 -> tables.add(stream.toTable(kept()));
            case 15 -> streams.add(pattern());
            default -> builder.globalTable(topic());
        }
    }

    private String topic() {
        return "t" + topics++;
    }

    private String name() {
        return "n" + topics++;
    }

    private KStream<String, String> another() {
        return streams.get(random.nextInt(streams.size()));
    }

    private KStream<String, String> pattern() {
        String beginning = "p" + topics++;
        for (String end : FOUND) {
            subscribed.add(beginning + end);
        }
        return builder.stream(Pattern.compile(beginning + "-[a-z]{1,3}"));
    }

    private Grouped<String, String> grouped() {
        return random.nextBoolean() ? Grouped.as(name()) : Grouped.with(Serdes.String(), Serdes.String());
    }

    private Materialized<String, String, KeyValueStore<Bytes, byte[]>> kept() {
        return switch (random.nextInt(4)) {
            case 0 -> Materialized.as(Stores.inMemoryKeyValueStore(name()));
            case 1 -> Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name()).withLoggingDisabled();
            case 2 -> Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name())
                .withLoggingEnabled(Map.of("segment.ms", String.valueOf(60_000 + random.nextInt(9))));
            default -> Materialized.with(Serdes.String(), Serdes.String());
        };
    }

    private TimeWindows tumbling() {
        return windows(TimeWindows.class, "ofSizeAndGrace", "of");
    }

    private JoinWindows joining() {
        return windows(JoinWindows.class, "ofTimeDifferenceAndGrace", "of");
    }

    private SessionWindows sessions() {
        return windows(SessionWindows.class, "ofInactivityGapAndGrace", "with");
    }

    /** The names until 2.8 are gone in 4.0. */
    private <T> T windows(Class<T> type, String name, String old) {
        Duration size = Duration.ofMinutes(1 + random.nextInt(99));
        Duration grace = Duration.ofMinutes(random.nextInt(9));
        try {
            return type.cast(type.getMethod(name, Duration.class, Duration.class).invoke(null, size, grace));
        } catch (NoSuchMethodException before30) {
            try {
                Object made = type.getMethod(old, Duration.class).invoke(null, size);
                return type.cast(type.getMethod("grace", Duration.class).invoke(made, grace));
            } catch (ReflectiveOperationException error) {
                throw new AssertionError(error);
            }
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    private static Map<String, Object> truth(InternalTopologyBuilder builder, StreamsConfig config, Set<String> subscribed)
        throws Exception {
        if (!subscribed.isEmpty()) {
            method(builder.getClass(), "addSubscribedTopicsFromMetadata").invoke(builder, subscribed, "");
        }
        Map<String, Object> parts = new TreeMap<>();
        Set<String> internal = new TreeSet<>();
        Map<?, ?> groups = (Map<?, ?>) method(builder.getClass(), "subtopologyToTopicsInfo", "topicGroups").invoke(builder);
        groups.values().forEach(info -> internal.addAll(((InternalTopologyBuilder.TopicsInfo) info).repartitionSourceTopics.keySet()));
        for (Map.Entry<?, ?> entry : groups.entrySet()) {
            InternalTopologyBuilder.TopicsInfo info = (InternalTopologyBuilder.TopicsInfo) entry.getValue();
            Map<String, Object> made = new TreeMap<>();
            for (InternalTopicConfig topic : info.repartitionSourceTopics.values()) {
                made.put(topic.name(), List.of(topic.numberOfPartitions().orElse(0), configs(topic, config)));
            }
            Map<String, Object> changelogs = new TreeMap<>();
            for (Map.Entry<String, InternalTopicConfig> topic : info.stateChangelogTopics.entrySet()) {
                boolean source = info.sourceTopics.contains(topic.getKey());
                changelogs.put(topic.getKey(), source ? Map.of() : configs(topic.getValue(), config));
            }
            Set<String> sinks = new TreeSet<>(info.sinkTopics);
            sinks.retainAll(internal);
            parts.put(String.valueOf(number(entry.getKey())), Map.of(
                "sources", new TreeSet<>(info.sourceTopics), "sinks", sinks, "made", made, "changelogs", changelogs));
        }
        Map<String, Object> line = new TreeMap<>();
        line.put("parts", parts);
        line.put("subscribed", subscribed);
        List<Object> joined = new ArrayList<>();
        builder.copartitionGroups().forEach(group -> joined.add(new TreeSet<>(group)));
        line.put("groups", joined);
        Set<String> memory = new TreeSet<>();
        builder.buildTopology().stateStores().stream().filter(store -> !store.persistent()).forEach(s -> memory.add(s.name()));
        line.put("memory", memory);
        return line;
    }

    private static Map<?, ?> configs(InternalTopicConfig topic, StreamsConfig config) throws Exception {
        Map<String, String> common = new HashMap<>();
        config.originalsWithPrefix(StreamsConfig.TOPIC_PREFIX).forEach((k, v) -> common.put(k, v.toString()));
        long more = config.getLong(StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG);
        return new TreeMap<>((Map<?, ?>) method(topic.getClass(), "properties", "getProperties").invoke(topic, common, more));
    }

    private static int number(Object key) throws Exception {
        if (key instanceof Integer) {
            return (Integer) key;
        }
        Field field = key.getClass().getDeclaredField("nodeGroupId");
        field.setAccessible(true);
        return field.getInt(key);
    }

    private static Method method(Class<?> type, String... names) throws Exception {
        for (String name : names) {
            for (Class<?> at = type; at != null; at = at.getSuperclass()) {
                for (Method method : at.getDeclaredMethods()) {
                    if (method.getName().equals(name) && !method.isBridge()) {
                        method.setAccessible(true);
                        return method;
                    }
                }
            }
        }
        throw new NoSuchMethodException(type + " has none of " + List.of(names));
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            List<String> pairs = new ArrayList<>();
            map.forEach((key, item) -> pairs.add(json(String.valueOf(key)) + ":" + json(item)));
            return "{" + String.join(",", pairs) + "}";
        }
        if (value instanceof Collection<?> items) {
            List<String> all = new ArrayList<>();
            items.forEach(item -> all.add(json(item)));
            return "[" + String.join(",", all) + "]";
        }
        String text = String.valueOf(value).replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
        return value instanceof Number ? text : "\"" + text + "\"";
    }
}
