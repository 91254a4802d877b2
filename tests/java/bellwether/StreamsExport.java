package bellwether;

import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.streams.Topology;

/** The topology of StreamsMain, for the command line of TopologyExporter: its arguments as properties. */
public final class StreamsExport {
    private StreamsExport() {}

    static Topology topology(Properties properties) {
        Map<String, String> settings = new TreeMap<>();
        properties.forEach((key, value) -> settings.put(key.toString(), value.toString()));
        return StreamsMain.topology(settings);
    }
}
