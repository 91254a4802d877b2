package bellwether.topology;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;

/**
 * Writes Bellwether's topology file of a Kafka Streams application, from the builder that its partition assignor asks.
 * docs/reference/topology-file.md says what the file holds.
 *
 * <p>Give it the Topology that KafkaStreams gets, and the same properties. Nothing talks to a broker. The builder has no
 * public interface, so it is read by reflection; what is read is the same from Kafka Streams 2.8 to 4.4.
 */
public final class TopologyExporter {
    private static final String USAGE = "Usage: TopologyExporter CLASS::METHOD PROPERTIES FILE [--check]\n"
        + "METHOD is static, takes java.util.Properties or nothing, and returns a Topology or a StreamsBuilder.\n"
        + "PROPERTIES is a file with the properties of the application. With --check, FILE is only compared.";
    private static final Pattern PLAIN = Pattern.compile("(?!(?i:true|false|yes|no|on|off|null|y|n)$)[A-Za-z][A-Za-z0-9._-]*");
    private static final String[] REPEATED = {
        StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG,
        StreamsConfig.MAX_WARMUP_REPLICAS_CONFIG, StreamsConfig.PROBING_REBALANCE_INTERVAL_MS_CONFIG,
        "rack.aware.assignment.strategy", "rack.aware.assignment.tags", "rack.aware.assignment.traffic_cost",
        "rack.aware.assignment.non_overlap_cost"};
    private static final int DIGEST_CHARS = 32;
    private static final String DIGEST = "Digest: ";
    private static final String SUBTOPOLOGY = "  - SubtopologyId: ";

    private final Object builder;
    private final StreamsConfig config;
    private final Properties properties;
    /** The pattern of each placeholder: the builder lists no subtopology whose topics are not known yet. */
    private final Map<String, String> patterns = new TreeMap<>();

    private TopologyExporter(Topology topology, Properties properties) throws ReflectiveOperationException {
        Properties all = new Properties();
        all.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9092");  // needed, and never asked
        all.putAll(properties);
        this.properties = properties;
        this.config = new StreamsConfig(all);
        this.builder = field(Topology.class, "internalTopologyBuilder").get(topology);
    }

    /** Returns the text of the topology file. Throws IllegalStateException with a version whose builder is another one. */
    public static String export(Topology topology, Properties properties) {
        try {
            return new TopologyExporter(topology, properties).text();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("Kafka Streams " + version() + " keeps its topology in another way than"
                + " TopologyExporter knows; use a newer TopologyExporter, or 'bellwether topology parse'", error);
        }
    }

    /** Writes the topology file where its content differs. */
    public static void write(Topology topology, Properties properties, Path file) throws IOException {
        String text = export(topology, properties);
        if (!Files.exists(file) || !text.equals(read(file))) {
            Files.write(file, text.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Throws AssertionError where the file is not what the application has now; for a test of the application. */
    public static void assertCurrent(Topology topology, Properties properties, Path file) throws IOException {
        String[] wanted = export(topology, properties).split("\n");
        String[] found = Files.exists(file) ? read(file).split("\n") : new String[0];
        for (int line = 0; line < Math.max(wanted.length, found.length); line++) {
            String want = line < wanted.length ? wanted[line] : "nothing";
            String have = line < found.length ? found[line] : "nothing";
            if (!want.equals(have)) {
                throw new AssertionError("The topology file " + file + " is stale: line " + (line + 1) + " is <" + have.trim()
                    + ">, and the application has <" + want.trim() + ">. Write it again with TopologyExporter.write.");
            }
        }
    }

    /** The command line. Ends with 1 where --check finds a stale file, with 2 where it is called wrongly. */
    public static void main(String[] arguments) {
        System.exit(run(arguments, System.out, System.err));
    }

    /** Runs the command line and returns its status. What the application itself throws is shown as it is. */
    static int run(String[] arguments, PrintStream out, PrintStream err) {
        boolean check = arguments.length == 4 && arguments[3].equals("--check");
        String[] factory = arguments.length == 3 || check ? arguments[0].split("::") : new String[0];
        if (factory.length != 2) {
            err.println(USAGE);
            return 2;
        }
        Path file = Paths.get(arguments[2]);
        try {
            Properties properties = loaded(Paths.get(arguments[1]));
            Object made = made(factory[0], factory[1], properties);
            Topology topology = made instanceof StreamsBuilder ? ((StreamsBuilder) made).build(properties) : (Topology) made;
            if (check) {
                assertCurrent(topology, properties, file);
            } else {
                write(topology, properties, file);
            }
            out.println(summary(file, check ? "is current" : "is written"));
            return 0;
        } catch (AssertionError stale) {
            err.println(stale.getMessage());
            return 1;
        } catch (UsageException mistake) {
            err.println(mistake.getMessage());
        } catch (ConfigException setting) {
            err.println(arguments[1] + " cannot be used: " + setting.getMessage());
        } catch (IOException error) {
            err.println(file + " cannot be written or read: " + error);
        } catch (InvocationTargetException | ExceptionInInitializerError error) {
            err.println(arguments[0] + " failed:");
            error.getCause().printStackTrace(err);
        } catch (RuntimeException error) {  // of StreamsBuilder.build, such as TopologyException
            err.println("The topology of " + arguments[0] + " cannot be built:");
            error.printStackTrace(err);
        } catch (IllegalAccessException error) {
            err.println(arguments[0] + " cannot be called: " + error.getMessage());
        }
        return 2;
    }

    /** A mistake in the arguments, as a sentence with its remedy. */
    private static final class UsageException extends Exception {
        private static final long serialVersionUID = 1L;

        UsageException(String sentence) {
            super(sentence);
        }
    }

    private static Properties loaded(Path file) throws UsageException {
        Properties found = new Properties();
        try (InputStream input = Files.newInputStream(file)) {
            found.load(input);
        } catch (IOException | IllegalArgumentException error) {
            throw new UsageException("The properties file " + file + " cannot be read (" + error + "); check the path.");
        }
        return found;
    }

    private static Object made(String type, String name, Properties properties)
            throws UsageException, InvocationTargetException, IllegalAccessException {
        Method[] methods;
        try {
            methods = Class.forName(type).getDeclaredMethods();
        } catch (ExceptionInInitializerError error) {
            throw error;
        } catch (ClassNotFoundException | LinkageError error) {
            throw new UsageException("The class " + type + " cannot be loaded (" + error + "); put the application and its"
                + " libraries on the class path.");
        }
        for (Method method : methods) {
            Class<?>[] taken = method.getParameterTypes();
            Class<?> given = method.getReturnType();
            boolean fits = taken.length == 0 || (taken.length == 1 && taken[0] == Properties.class);
            boolean makes = Topology.class.isAssignableFrom(given) || StreamsBuilder.class.isAssignableFrom(given);
            if (method.getName().equals(name) && fits && makes && Modifier.isStatic(method.getModifiers())) {
                method.setAccessible(true);
                return taken.length == 0 ? method.invoke(null) : method.invoke(null, properties);
            }
        }
        throw new UsageException(type + " has no static method " + name + "() or " + name + "(Properties) that returns a"
            + " Topology or a StreamsBuilder; write one that main calls too.");
    }

    /** The line of the command line: where the file is, how many subtopologies it has, and which topology it is. */
    private static String summary(Path file, String what) throws IOException {
        int subtopologies = 0;
        String digest = "";
        for (String line : read(file).split("\n")) {
            subtopologies += line.startsWith(SUBTOPOLOGY) ? 1 : 0;
            digest = line.startsWith(DIGEST) ? line.substring(DIGEST.length()).replace("\"", "") : digest;
        }
        String count = subtopologies + (subtopologies == 1 ? " subtopology" : " subtopologies");
        return file.toAbsolutePath().normalize() + " " + what + ": " + count + ", Digest " + digest;
    }

    private String text() throws ReflectiveOperationException {
        call(builder, "rewriteTopology", config);  // as KafkaStreams does: names get the application id
        List<String> memory = inMemoryStores();
        List<String> lines = new ArrayList<>();
        lines.add("ApplicationId: " + quoted(config.getString(StreamsConfig.APPLICATION_ID_CONFIG)));
        lines.add("StreamsVersion: " + quoted(version()));
        lines.add("InMemoryStores: " + listed(memory));
        lines.add("Subtopologies:");
        Map<String, List<String>> sources = field(builder, "nodeToSourceTopics");
        Map<String, List<String>> before = new HashMap<>(sources);
        try {
            for (Map.Entry<String, Pattern> node : this.<Map<String, Pattern>>field(builder, "nodeToSourcePatterns").entrySet()) {
                String placeholder = "/" + node.getKey();
                patterns.put(placeholder, node.getValue().pattern());
                sources.put(node.getKey(), Collections.singletonList(placeholder));
            }
            subtopologies(lines);
        } finally {
            sources.clear();
            sources.putAll(before);
        }
        lines.add(3, DIGEST + quoted(digest(lines)));
        return head(memory) + String.join("\n", lines) + "\n";
    }

    private void subtopologies(List<String> lines) throws ReflectiveOperationException {
        Map<Integer, Object> parts = new TreeMap<>();
        Set<String> internal = new TreeSet<>();
        for (Map.Entry<?, ?> part : topicsInfo().entrySet()) {
            boolean plain = part.getKey() instanceof Integer;  // until 3.0
            parts.put(plain ? (Integer) part.getKey() : this.<Integer>field(part.getKey(), "nodeGroupId"), part.getValue());
            internal.addAll(this.<Map<String, ?>>field(part.getValue(), "repartitionSourceTopics").keySet());
        }
        Collection<Set<String>> groups = new ArrayList<>(TopologyExporter.<Collection<Set<String>>>cast(call(builder, "copartitionGroups")));
        for (Map.Entry<Integer, Object> part : parts.entrySet()) {
            Map<String, Object> repartition = new TreeMap<>(this.<Map<String, Object>>field(part.getValue(), "repartitionSourceTopics"));
            Map<String, Object> changelogs = new TreeMap<>(this.<Map<String, Object>>field(part.getValue(), "stateChangelogTopics"));
            Set<String> all = new TreeSet<>(this.<Set<String>>field(part.getValue(), "sourceTopics"));
            Set<String> sinks = new TreeSet<>(this.<Set<String>>field(part.getValue(), "sinkTopics"));
            sinks.retainAll(internal);
            lines.add(SUBTOPOLOGY + "\"" + part.getKey() + "\"");
            lines.addAll(sources("    ", all, repartition.keySet(), null));
            lines.add("    RepartitionSourceTopics:" + (repartition.isEmpty() ? " []" : ""));
            for (Map.Entry<String, Object> topic : repartition.entrySet()) {
                lines.add("      - " + topic(topic.getKey(), topic.getValue()));
            }
            lines.add("    RepartitionSinkTopics: " + listed(sinks));
            lines.add("    StateChangelogTopics:" + (changelogs.isEmpty() ? " []" : ""));
            for (Map.Entry<String, Object> topic : changelogs.entrySet()) {
                boolean source = all.contains(topic.getKey());  // an optimized table: the topic is the user's
                lines.add("      - " + (source ? quoted(topic.getKey()) : topic(topic.getKey(), topic.getValue())));
            }
            copartitioned(lines, groups, all, internal);
        }
    }

    /** The groups that have a topic of this subtopology; those of cogroup have topics of several, and are listed once. */
    private void copartitioned(List<String> lines, Collection<Set<String>> groups, Set<String> own, Set<String> internal) {
        Set<String> found = new TreeSet<>();  // in an order that does not change from run to run
        groups.removeIf(group -> {
            if (Collections.disjoint(group, own)) {
                return false;
            }
            found.add("      - {" + String.join(", ", sources("", group, internal, "RepartitionSourceTopics")) + "}");
            return true;
        });
        lines.add("    CopartitionGroups:" + (found.isEmpty() ? " []" : ""));
        lines.addAll(found);
    }

    /** The names, patterns and, under the key `internal`, repartition topics among the sources, a line each. */
    private List<String> sources(String indent, Set<String> sources, Set<String> repartition, String internal) {
        Set<String> names = new TreeSet<>(sources);
        Set<String> regexes = new TreeSet<>();
        Set<String> made = new TreeSet<>();
        for (String source : sources) {
            if (patterns.containsKey(source)) {
                regexes.add(patterns.get(source));
            } else if (repartition.contains(source)) {
                made.add(source);
            }
        }
        names.removeAll(patterns.keySet());
        names.removeAll(made);
        List<String> lines = new ArrayList<>();
        lines.add(indent + "SourceTopics: " + listed(names));
        lines.add(indent + "SourceTopicRegex: " + listed(regexes));
        if (internal != null) {
            lines.add(indent + internal + ": " + listed(made));
        }
        return lines;
    }

    private Map<?, ?> topicsInfo() throws ReflectiveOperationException {
        try {
            return (Map<?, ?>) call(builder, "subtopologyToTopicsInfo");
        } catch (NoSuchMethodException before31) {
            return (Map<?, ?>) call(builder, "topicGroups");
        }
    }

    /** An internal topic with all configs that Kafka Streams would create it with, those of `topic.` included. */
    private String topic(String name, Object wanted) throws ReflectiveOperationException {
        Map<String, String> common = new HashMap<>();
        config.originalsWithPrefix(StreamsConfig.TOPIC_PREFIX).forEach((key, value) -> common.put(key, String.valueOf(value)));
        long more = config.getLong(StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG);
        Map<String, String> configs;
        try {
            configs = cast(call(wanted, "properties", common, more));
        } catch (NoSuchMethodException before40) {
            configs = cast(call(wanted, "getProperties", common, more));
        }
        List<String> pairs = new ArrayList<>();
        new TreeMap<>(configs).forEach((key, value) -> pairs.add(quoted(key) + ": " + quoted(value)));
        boolean declared = (Boolean) call(wanted, "hasEnforcedNumberOfPartitions");
        Optional<Integer> partitions = cast(call(wanted, "numberOfPartitions"));
        String number = declared && partitions.isPresent() ? ", Partitions: " + partitions.get() : "";
        boolean set = properties.containsKey(StreamsConfig.REPLICATION_FACTOR_CONFIG);  // its default differs by version
        String replicas = set ? ", ReplicationFactor: " + config.getInt(StreamsConfig.REPLICATION_FACTOR_CONFIG) : "";
        return "{Name: " + quoted(name) + number + replicas + ", TopicConfigs: {" + String.join(", ", pairs) + "}}";
    }

    private List<String> inMemoryStores() throws ReflectiveOperationException {
        List<String> found = new ArrayList<>();
        Collection<org.apache.kafka.streams.processor.StateStore> stores = cast(call(call(builder, "buildTopology"), "stateStores"));
        for (org.apache.kafka.streams.processor.StateStore store : stores) {
            if (!store.persistent()) {
                found.add(store.name());
            }
        }
        Collections.sort(found);
        return found;
    }

    /** What the members do not send either: the settings to repeat in Bellwether's configuration. */
    private String head(List<String> memory) {
        boolean once = config.getString(StreamsConfig.PROCESSING_GUARANTEE_CONFIG).startsWith("exactly_once");
        StringBuilder text = new StringBuilder("# Written by TopologyExporter. Do not edit it: export it again.\n")
            .append("# The settings of the group, for Bellwether's configuration:\n")
            .append("#   \"processing.guarantee\" = \"").append(once ? "exactly_once_v2" : "at_least_once").append("\"\n")
            .append("#   stores = \"").append(memory.isEmpty() ? "persistent" : "in-memory").append("\"\n");
        for (String name : REPEATED) {
            Object value = properties.get(name);
            if (value != null) {
                boolean number = value.toString().matches("[0-9]+");
                text.append("#   \"").append(name).append("\" = ").append(number ? value : "\"" + value + "\"").append('\n');
            }
        }
        return text.toString();
    }

    /** Of Kafka Streams; 3.3 only has that of the clients, which are released together. */
    private static String version() {
        for (String resource : new String[] {"/kafka/kafka-streams-version.properties", "/kafka/kafka-version.properties"}) {
            try (InputStream input = Topology.class.getResourceAsStream(resource)) {
                if (input != null) {
                    Properties found = new Properties();
                    found.load(input);
                    return found.getProperty("version");
                }
            } catch (IOException unreadable) {
                throw new UncheckedIOException(unreadable);
            }
        }
        return "unknown";
    }

    private static String digest(List<String> lines) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(String.join("\n", lines).getBytes(StandardCharsets.UTF_8));
            StringBuilder text = new StringBuilder();
            for (byte one : hash) {
                text.append(String.format("%02x", one));
            }
            return text.substring(0, DIGEST_CHARS);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static String listed(Collection<String> names) {
        List<String> found = new ArrayList<>();
        names.forEach(name -> found.add(quoted(name)));
        return "[" + String.join(", ", found) + "]";
    }

    /** A text that YAML reads as this text. */
    private static String quoted(String text) {
        if (PLAIN.matcher(text).matches()) {
            return text;
        }
        StringBuilder found = new StringBuilder("\"");
        text.codePoints().forEach(c -> found.append(c == '"' || c == '\\' ? "\\" + (char) c
            : c >= ' ' && c < 0x7f ? String.valueOf((char) c) : String.format("\\U%08x", c)));
        return found.append('"').toString();
    }

    private static String read(Path file) throws IOException {
        return new String(Files.readAllBytes(file), StandardCharsets.UTF_8).replace("\r\n", "\n");
    }

    private <T> T field(Object of, String name) throws ReflectiveOperationException {
        return cast(field(of.getClass(), name).get(of));
    }

    private static Field field(Class<?> type, String name) throws ReflectiveOperationException {
        Field found = type.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    private static Object call(Object of, String name, Object... arguments) throws ReflectiveOperationException {
        for (Class<?> type = of.getClass(); type != null; type = type.getSuperclass()) {
            for (Method method : type.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == arguments.length && !method.isBridge()) {
                    method.setAccessible(true);
                    try {
                        return method.invoke(of, arguments);
                    } catch (InvocationTargetException error) {
                        if (error.getCause() instanceof RuntimeException) {
                            throw (RuntimeException) error.getCause();  // of the application
                        }
                        throw error;
                    }
                }
            }
        }
        throw new NoSuchMethodException(of.getClass().getName() + "." + name);
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object value) {
        return (T) value;
    }
}
