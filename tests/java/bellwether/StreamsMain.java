package bellwether;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.internals.DefaultKafkaClientSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.Options;

/**
 * One instance of a Kafka Streams application that reports on itself. Arguments are key=value: `app.topology` (v1 to
 * v7), `app.input` (topics with commas between) or `app.pattern`, `app.output`, `app.describe` (print the topology and
 * end); every other key is a Streams setting and goes to Kafka as it is.
 *
 * <p>v1: subtopology 0 reads the input, writes every tenth record to the output and repartitions twice; 1 counts per
 * key (store "counts"); 2 counts per mark and ten seconds (store "windowed"). v2: 1 has a second store, "sizes". v3:
 * 1 and 2 change places. v4: 0 has a store, "seen". v5: 3 counts behind another repartition topic. v6: 0 reads
 * `app.second`, too. v7: 0 joins that to the table `app.table` before (store "names"), so two of its three topics have
 * the same number of partitions. Records are (key, number) and each key's numbers run 1, 2, 3 ..., so that "counts" can tell
 * what came twice and what never came.
 *
 * <p>JSON lines on stdout, `t_ms` is the wall clock. Lines on stdin: "dump" prints what the stores hold, "fail" makes
 * every thread throw at its next record, "fail-and-stay" as well, but the process lives on, "hog" takes memory until
 * there is none, "resume" ends the pause (KIP-834) in which an instance with `app.paused` starts. The end of input and
 * SIGTERM close the instance; it leaves the group then if `app.leave` is true. Each
 * store takes `app.close.ms` to close, whenever it is closed, and each subtopology `app.slow.ms` for each record. When
 * the instance fails, the process ends with 3, or with `app.replaces` gets another thread. `app.marks` is the number
 * of marks (64). With `app.even` the number at the end of a key decides its mark and the partition of either
 * repartition topic, so that partitions take turns if keys do.
 */
public final class StreamsMain {
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofHours(1);
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(20);
    private static final long POLL_MS = 20;
    private static final int POLLS_PER_REPORT = 5;
    private static final int HOGGED_AT_ONCE = 16 << 20;
    private static final AtomicBoolean CLOSED = new AtomicBoolean();
    private static volatile boolean failing;
    private static volatile boolean staying;
    private static long closeMs;
    private static long slowMs;
    private static boolean even;

    private StreamsMain() {}

    public static void main(String[] arguments) throws IOException {
        Map<String, String> settings = new TreeMap<>();
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            settings.put(argument.substring(0, equals), argument.substring(equals + 1));
        }
        Properties properties = new Properties();
        settings.forEach((key, value) -> {
            if (!key.startsWith("app.")) {
                properties.put(key, value);
            }
        });
        even = Boolean.parseBoolean(settings.get("app.even"));
        Topology topology = topology(settings);
        Report.line("topology", "\"version\":\"" + version() + "\",\"text\":"
            + Report.quoted(topology.describe().toString()));
        if (settings.containsKey("app.describe")) {
            return;
        }
        closeMs = Long.parseLong(settings.getOrDefault("app.close.ms", "0"));
        slowMs = Long.parseLong(settings.getOrDefault("app.slow.ms", "0"));
        if (closeMs > 0) {
            properties.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SlowToClose.class);
        }
        boolean replaces = Boolean.parseBoolean(settings.get("app.replaces"));
        KafkaStreams streams = new KafkaStreams(topology, properties, new WatchedClients());
        streams.setStateListener((to, from) -> {
            Report.line("state", "\"state\":\"" + to + "\",\"before\":\"" + from + "\"");
            if (to == KafkaStreams.State.ERROR && !staying) {
                Runtime.getRuntime().halt(3);
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            Report.line("error", "\"text\":" + Report.quoted(String.valueOf(error)));
            error.printStackTrace(System.err);
            return replaces ? StreamThreadExceptionResponse.REPLACE_THREAD
                : StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        RestoreWatch restores = new RestoreWatch();
        streams.setGlobalStateRestoreListener(restores);
        streams.setStandbyUpdateListener(restores);
        Thread watch = new Thread(() -> watch(streams), "watch");
        watch.setDaemon(true);
        boolean leaves = Boolean.parseBoolean(settings.get("app.leave"));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            close(streams, leaves);
            awaitTheEnd();
        }, "sigterm"));
        if (Boolean.parseBoolean(settings.get("app.paused"))) {
            streams.pause();
        }
        streams.start();
        watch.start();
        serve(streams, settings.getOrDefault("app.topology", "v1"));
        close(streams, leaves);
    }

    /** Ends the process; the first caller closes the instance. These options exist since 3.3. */
    @SuppressWarnings("deprecation")
    private static void close(KafkaStreams streams, boolean leaves) {
        if (!CLOSED.compareAndSet(false, true)) {
            return;
        }
        boolean clean = streams.close(new KafkaStreams.CloseOptions().timeout(CLOSE_LIMIT).leaveGroup(leaves));
        Report.progress();
        Report.line("closed", "\"clean\":" + clean);
        Runtime.getRuntime().halt(clean ? 0 : 2);
    }

    /** Of the thread that closes; without, the process would end before it has. */
    private static void awaitTheEnd() {
        try {
            Thread.sleep(CLOSE_LIMIT.multipliedBy(2).toMillis());
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    /** As Kafka itself reads it; its class for this is in another package from 4.4 on. */
    private static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream text = KafkaStreams.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(text);
        }
        return properties.getProperty("version");
    }

    static Topology topology(Map<String, String> settings) {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> texts = Consumed.with(Serdes.String(), Serdes.String());
        String pattern = settings.get("app.pattern");
        KStream<String, String> source = pattern != null
            ? builder.stream(Pattern.compile(pattern), texts)
            : builder.stream(Arrays.asList(settings.get("app.input").split(",")), texts);
        String variant = settings.getOrDefault("app.topology", "v1");
        if (variant.equals("v6")) {
            source = source.merge(builder.stream(settings.get("app.second"), texts));
        }
        if (variant.equals("v7")) {
            KTable<String, String> names = builder.table(settings.get("app.table"), texts, Materialized.as("names"));
            source = source.merge(
                builder.stream(settings.get("app.second"), texts).join(names, (number, name) -> number));
        }
        KStream<String, String> input = source.processValues(Meter::new);
        input.filter((key, number) -> number.endsWith("0"))
            .mapValues(number -> "tenth " + number)
            .to(settings.get("app.output"), Produced.with(Serdes.String(), Serdes.String()));
        int marks = Integer.parseInt(settings.getOrDefault("app.marks", "64"));
        if (variant.equals("v3")) {
            countMarks(input, marks);
            countKeys(input, false);
        } else {
            countKeys(input, variant.equals("v2"));
            countMarks(input, marks);
        }
        if (variant.equals("v4")) {
            input.groupByKey(Grouped.with(Serdes.String(), Serdes.String())).count(Materialized.as("seen"));
        }
        if (variant.equals("v5")) {
            repartitioned(input, "by-size", number -> "size-" + number.length()).count(Materialized.as("lengths"));
        }
        return builder.build();
    }

    private static void countKeys(KStream<String, String> input, boolean sizes) {
        KGroupedStream<String, String> byKey = repartitioned(input, "by-key", key -> key);
        byKey.aggregate(
            () -> new byte[Tally.BYTES],
            (key, number, tally) -> Tally.add(tally, Long.parseLong(number)),
            Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as("counts")
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.ByteArray()));
        if (sizes) {
            byKey.count(Materialized.as("sizes"));
        }
    }

    private static void countMarks(KStream<String, String> input, int marks) {
        repartitioned(input, "by-mark", key -> "mark-" + Math.floorMod(even ? number(key) : key.hashCode(), marks))
            .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
            .count(Materialized.as("windowed"));
    }

    private static KGroupedStream<String, String> repartitioned(
            KStream<String, String> input, String name, Function<String, String> keyOf) {
        Repartitioned<String, String> through = Repartitioned.with(Serdes.String(), Serdes.String());
        return input.selectKey((key, number) -> keyOf.apply(key))
            .repartition((even ? through.withStreamPartitioner(new InTurn()) : through).withName(name))
            .processValues(Meter::new)
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
    }

    private static int number(String key) {
        return Integer.parseInt(key.substring(key.lastIndexOf('-') + 1));
    }

    /**
     * By the number at the end of a key, so that each partition gets records from all tasks in turn. Releases before 4.0
     * ask for `partition`.
     */
    private static final class InTurn implements StreamPartitioner<String, String> {
        @Override
        public Optional<Set<Integer>> partitions(String topic, String key, String value, int count) {
            return Optional.of(Set.of(partition(topic, key, value, count)));
        }

        public Integer partition(String topic, String key, String value, int count) {
            int number = number(key);
            return (number + number / count) % count;
        }
    }

    /** Reports what the threads have and what was processed, as long as the instance lives. */
    private static void watch(KafkaStreams streams) {
        String before = "";
        for (long turn = 0; ; turn++) {
            String now = tasks(streams);
            if (!now.equals(before)) {
                Report.line("tasks", now);
                before = now;
            }
            if (turn % POLLS_PER_REPORT == 0) {
                Report.progress();
            }
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException ended) {
                return;
            }
        }
    }

    private static String tasks(KafkaStreams streams) {
        TreeSet<String> active = new TreeSet<>();
        TreeSet<String> standby = new TreeSet<>();
        for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
            thread.activeTasks().forEach(task -> active.add(task.taskId().toString()));
            thread.standbyTasks().forEach(task -> standby.add(task.taskId().toString()));
        }
        return "\"active\":" + Report.list(active) + ",\"standby\":" + Report.list(standby);
    }

    private static void serve(KafkaStreams streams, String variant) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            switch (line) {
                case "dump" -> dump(streams, variant);
                case "fail" -> failing = true;
                case "fail-and-stay" -> {
                    staying = true;
                    failing = true;
                }
                case "hog" -> hog();
                case "resume" -> streams.resume();
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    /** Outside of the heap, so that the kernel has to end it. */
    private static void hog() {
        List<ByteBuffer> taken = new ArrayList<>();
        while (true) {
            ByteBuffer next = ByteBuffer.allocateDirect(HOGGED_AT_ONCE);
            while (next.hasRemaining()) {
                next.put((byte) 1);
            }
            taken.add(next);
        }
    }

    /** What the active stores here hold: per partition of "counts" and "windowed" sums and a digest. */
    private static void dump(KafkaStreams streams, String variant) {
        TreeMap<Integer, Dump> counts = new TreeMap<>();
        TreeMap<Integer, Dump> windowed = new TreeMap<>();
        String[] order = variant.equals("v3") ? new String[] {"2_", "1_"} : new String[] {"1_", "2_"};
        for (String task : Report.running()) {
            int partition = Integer.parseInt(task.substring(task.indexOf('_') + 1));
            try {
                if (task.startsWith(order[0])) {
                    counts.put(partition, countsOf(streams, partition));
                } else if (task.startsWith(order[1])) {
                    windowed.put(partition, windowedOf(streams, partition));
                }
            } catch (RuntimeException moved) {
                Report.line("dump-failed", "\"text\":" + Report.quoted(task + ": " + moved));
                return;
            }
        }
        Report.line("dump", "\"counts\":" + Dump.json(counts) + ",\"windowed\":" + Dump.json(windowed));
    }

    private static Dump countsOf(KafkaStreams streams, int partition) {
        ReadOnlyKeyValueStore<String, byte[]> store = streams.store(
            StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.<String, byte[]>keyValueStore())
                .withPartition(partition));
        Dump sums = new Dump();
        try (KeyValueIterator<String, byte[]> all = store.all()) {
            all.forEachRemaining(entry -> {
                Tally tally = new Tally(entry.value);
                sums.add(entry.key, tally.seen, tally.last, tally.missing.size(), tally.late);
            });
        }
        return sums;
    }

    private static Dump windowedOf(KafkaStreams streams, int partition) {
        ReadOnlyWindowStore<String, Long> store = streams.store(
            StoreQueryParameters.fromNameAndType("windowed", QueryableStoreTypes.<String, Long>windowStore())
                .withPartition(partition));
        Dump sums = new Dump();
        try (KeyValueIterator<Windowed<String>, Long> all = store.all()) {
            all.forEachRemaining(entry -> sums.add(entry.key.key(), entry.value, entry.value, 0, 0));
        }
        return sums;
    }

    /** Sums over one partition of a store. `digest` adds up a checksum per key and its distinct count. */
    private static final class Dump {
        private long keys;
        private long seen;
        private long distinct;
        private long missing;
        private long digest;
        private long late;

        private void add(String key, long raw, long last, long gaps, long afterwards) {
            keys++;
            seen += raw;
            distinct += last - gaps;
            missing += gaps;
            late += afterwards;
            CRC32 checksum = new CRC32();
            checksum.update((key + "=" + (last - gaps)).getBytes(StandardCharsets.UTF_8));
            digest += checksum.getValue();
        }

        private static String json(Map<Integer, Dump> dumps) {
            return dumps.entrySet().stream().map(entry -> {
                Dump dump = entry.getValue();
                return "\"" + entry.getKey() + "\":[" + dump.keys + "," + dump.seen + "," + dump.distinct + ","
                    + dump.missing + "," + dump.digest + "," + dump.late + "]";
            }).collect(Collectors.joining(",", "{", "}"));
        }
    }

    /**
     * A key's value in "counts": the numbers that have not come although higher ones have, how often the key was seen,
     * its highest number, and how many numbers came after a higher one.
     */
    private static final class Tally {
        private static final int BYTES = 3 * Long.BYTES;

        private final List<Long> missing = new ArrayList<>();
        private long seen;
        private long last;
        private long late;

        private Tally(byte[] value) {
            ByteBuffer from = ByteBuffer.wrap(value);
            while (from.remaining() > BYTES) {
                missing.add(from.getLong());
            }
            seen = from.getLong();
            last = from.getLong();
            late = from.getLong();
        }

        private static byte[] add(byte[] before, long number) {
            Tally tally = new Tally(before);
            tally.seen++;
            for (long skipped = tally.last + 1; skipped < number; skipped++) {
                tally.missing.add(skipped);
            }
            tally.last = Math.max(tally.last, number);
            tally.late += tally.missing.remove((Long) number) ? 1 : 0;
            return tally.value();
        }

        private byte[] value() {
            ByteBuffer into = ByteBuffer.allocate(missing.size() * Long.BYTES + BYTES);
            missing.forEach(into::putLong);
            return into.putLong(seen).putLong(last).putLong(late).array();
        }
    }

    /** Stands at the head of each subtopology: a task runs here from init to close, and how far it came. */
    private static final class Meter extends ContextualFixedKeyProcessor<String, String, String> {
        private Report.Progress progress;

        @Override
        public void init(FixedKeyProcessorContext<String, String> context) {
            super.init(context);
            progress = Report.opened(context.taskId());
        }

        @Override
        public void process(FixedKeyRecord<String, String> entry) {
            if (failing) {
                throw new IllegalStateException("told to fail");
            }
            if (slowMs > 0) {
                sleep(slowMs);
            }
            progress.add();
            context().forward(entry);
        }

        @Override
        public void close() {
            Report.closed(context().taskId());
        }
    }

    /** RocksDB calls it on the thread that closes a store. A task that becomes a standby keeps its stores open. */
    public static final class SlowToClose implements RocksDBConfigSetter {
        @Override
        public void setConfig(String store, Options options, Map<String, Object> configs) {
            // Only closing differs.
        }

        @Override
        public void close(String store, Options options) {
            Report.line("store-closes", "\"store\":" + Report.quoted(store));
            sleep(closeMs);
        }
    }

    /** Counts what restoring and standby tasks read from changelogs. */
    private static final class RestoreWatch implements StateRestoreListener, StandbyUpdateListener {
        @Override
        public void onRestoreStart(TopicPartition changelog, String store, long from, long to) {
            Report.line("restore-start", changelog(changelog) + ",\"records\":" + (to - from));
        }

        @Override
        public void onBatchRestored(TopicPartition changelog, String store, long end, long records) {
            // The total comes at the end.
        }

        @Override
        public void onRestoreEnd(TopicPartition changelog, String store, long records) {
            Report.line("restored", changelog(changelog) + ",\"records\":" + records);
        }

        @Override
        public void onRestoreSuspended(TopicPartition changelog, String store, long records) {
            Report.line("restored", changelog(changelog) + ",\"records\":" + records);
        }

        @Override
        public void onUpdateStart(TopicPartition changelog, String store, long from) {
            Report.line("standby-start", changelog(changelog));
        }

        @Override
        public void onBatchLoaded(
                TopicPartition changelog, String store, TaskId task, long offset, long records, long end) {
            Report.standby(changelog, records, end - offset - 1);
        }

        @Override
        public void onUpdateSuspended(
                TopicPartition changelog, String store, long offset, long end, SuspendReason reason) {
            Report.line("standby-end", changelog(changelog) + ",\"reason\":\"" + reason + "\"");
        }

        private static String changelog(TopicPartition partition) {
            return "\"topic\":" + Report.quoted(partition.topic()) + ",\"partition\":" + partition.partition();
        }
    }

    /** Consumers as Streams makes them, but those of the group also say what each generation gave and took. */
    private static final class WatchedClients extends DefaultKafkaClientSupplier {
        @Override
        public Consumer<byte[], byte[]> getConsumer(Map<String, Object> config) {
            return new WatchedConsumer(config);
        }
    }

    private static final class WatchedConsumer extends KafkaConsumer<byte[], byte[]> {
        private WatchedConsumer(Map<String, Object> config) {
            super(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        @Override
        public void subscribe(Collection<String> topics, ConsumerRebalanceListener listener) {
            super.subscribe(topics, reporting(listener));
        }

        @Override
        public void subscribe(Pattern pattern, ConsumerRebalanceListener listener) {
            super.subscribe(pattern, reporting(listener));
        }

        private ConsumerRebalanceListener reporting(ConsumerRebalanceListener inner) {
            return new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    report("assigned", partitions);
                    inner.onPartitionsAssigned(partitions);
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    inner.onPartitionsRevoked(partitions);
                    report("revoked", partitions);
                }

                @Override
                public void onPartitionsLost(Collection<TopicPartition> partitions) {
                    inner.onPartitionsLost(partitions);
                    report("lost", partitions);
                }
            };
        }

        private void report(String event, Collection<TopicPartition> partitions) {
            String named = partitions.stream()
                .map(p -> "[" + Report.quoted(p.topic()) + "," + p.partition() + "]")
                .collect(Collectors.joining(",", "[", "]"));
            Report.line(event, "\"member\":" + Report.quoted(groupMetadata().memberId()) + ",\"generation\":"
                + groupMetadata().generationId() + ",\"partitions\":" + named);
        }
    }

    /** Lines on stdout, whole and one at a time, and the counters behind them. */
    static final class Report {
        private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        private static final long STARTED_MS = System.currentTimeMillis();
        private static final long STARTED_NS = System.nanoTime();
        private static final Map<String, Progress> PROGRESS = new ConcurrentHashMap<>();
        private static final Map<TopicPartition, long[]> STANDBY = new ConcurrentHashMap<>();
        private static final TreeSet<String> RUNNING = new TreeSet<>();

        private static long now() {
            return STARTED_MS + (System.nanoTime() - STARTED_NS) / 1_000_000;
        }

        static void line(String event, String fields) {
            synchronized (OUT) {
                OUT.println("{\"event\":\"" + event + "\",\"t_ms\":" + now() + (fields.isEmpty() ? "" : "," + fields)
                    + "}");
                OUT.flush();
            }
        }

        private static Progress opened(TaskId task) {
            synchronized (RUNNING) {
                RUNNING.add(task.toString());
            }
            line("running", "\"task\":\"" + task + "\"");
            return PROGRESS.computeIfAbsent(task.toString(), ignored -> new Progress());
        }

        private static void closed(TaskId task) {
            synchronized (RUNNING) {
                RUNNING.remove(task.toString());
            }
            line("suspended", "\"task\":\"" + task + "\"");
        }

        private static Collection<String> running() {
            synchronized (RUNNING) {
                return new TreeSet<>(RUNNING);
            }
        }

        private static void standby(TopicPartition changelog, long records, long lag) {
            STANDBY.merge(changelog, new long[] {records, lag}, (a, b) -> new long[] {a[0] + b[0], b[1]});
        }

        static void progress() {
            String tasks = PROGRESS.entrySet().stream()
                .map(entry -> entry.getValue().take(entry.getKey()))
                .filter(text -> !text.isEmpty())
                .collect(Collectors.joining(","));
            if (!tasks.isEmpty()) {
                line("processed", "\"tasks\":{" + tasks + "}");
            }
            for (TopicPartition changelog : STANDBY.keySet()) {
                long[] loaded = STANDBY.remove(changelog);
                if (loaded != null) {
                    line("standby", "\"topic\":" + quoted(changelog.topic()) + ",\"partition\":"
                        + changelog.partition() + ",\"records\":" + loaded[0] + ",\"lag\":" + loaded[1]);
                }
            }
        }

        private static String list(Collection<String> texts) {
            return texts.stream().map(Report::quoted).collect(Collectors.joining(",", "[", "]"));
        }

        static String quoted(String text) {
            StringBuilder quoted = new StringBuilder("\"");
            for (char c : text.toCharArray()) {
                if (c == '"' || c == '\\') {
                    quoted.append('\\').append(c);
                } else if (c < ' ') {
                    quoted.append(String.format("\\u%04x", (int) c));
                } else {
                    quoted.append(c);
                }
            }
            return quoted.append('"').toString();
        }

        /** Records of one task since the last report: when the first and the last came, and how many. */
        private static final class Progress {
            private long first;
            private long last;
            private long records;

            private synchronized void add() {
                last = now();
                if (records++ == 0) {
                    first = last;
                }
            }

            private synchronized String take(String task) {
                if (records == 0) {
                    return "";
                }
                String text = "\"" + task + "\":[" + first + "," + last + "," + records + "]";
                records = 0;
                return text;
            }
        }
    }
}
