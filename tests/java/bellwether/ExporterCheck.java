package bellwether;

import bellwether.topology.TopologyExporter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * The ways to use TopologyExporter, one after the other, with the file that the argument names; "right" at the end. Its
 * factory methods serve the command line.
 */
public final class ExporterCheck {
    private ExporterCheck() {}

    public static void main(String[] arguments) throws Exception {
        Path file = Paths.get(arguments[0]);
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "127.0.0.1:1");
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE);
        Topology topology = table().build(properties);
        refuses("there is none", topology, properties, file);
        TopologyExporter.write(topology, properties, file);
        TopologyExporter.assertCurrent(topology, properties, file);
        Files.writeString(file, Files.readString(file).replace("\n", "\r\n"));
        TopologyExporter.assertCurrent(topology, properties, file);
        refuses("it is not optimized any more", table().build(), properties, file);
        refuses("it has another id", topology, with(properties, StreamsConfig.APPLICATION_ID_CONFIG, "other"), file);
        new KafkaStreams(topology, properties).close();  // an exported topology is what it was
        System.out.println("right");
    }

    static StreamsBuilder table() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.table("t").toStream().to("out");
        builder.table("u", Materialized.as("kept"));
        return builder;
    }

    static Topology built(Properties properties) {
        return table().build(properties);
    }

    private static Properties with(Properties properties, String key, String value) {
        Properties changed = new Properties();
        changed.putAll(properties);
        changed.put(key, value);
        return changed;
    }

    private static void refuses(String what, Topology topology, Properties properties, Path file) throws Exception {
        try {
            TopologyExporter.assertCurrent(topology, properties, file);
        } catch (AssertionError stale) {
            System.out.println(stale.getMessage());
            return;
        }
        throw new IllegalStateException("not refused, although " + what);
    }
}
