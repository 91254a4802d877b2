package bellwether.topology;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.TopologyException;
import org.apache.kafka.streams.kstream.Materialized;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public final class TopologyExporterTest {
    private static final String HERE = TopologyExporterTest.class.getName();

    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();
    private Path file;
    private Path settings;

    @Before
    public void anApplication() throws Exception {
        file = folder.getRoot().toPath().resolve("topology.yaml");
        settings = folder.getRoot().toPath().resolve("app.properties");
        Files.write(settings, Collections.singletonList("application.id=shop"));
    }

    static StreamsBuilder builder() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.table("users", Materialized.as("users"));
        builder.stream("clicks").to("kept");
        return builder;
    }

    static StreamsBuilder unbuildable() {
        return new StreamsBuilder() {
            @Override
            public synchronized Topology build(Properties properties) {
                throw new TopologyException("a source is missing");
            }
        };
    }

    /** Fails before any method of it runs. */
    static final class Uninitializable {
        static final int PORT = Integer.parseInt("none");

        private Uninitializable() {}

        static StreamsBuilder builder() {
            return TopologyExporterTest.builder();
        }
    }

    static Topology broken() {
        throw new IllegalStateException("no topology today");
    }

    Topology notStatic() {
        return builder().build();
    }

    private static Properties properties() {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "shop");
        return properties;
    }

    private int run(String factory, Path from, String... more) {
        String[] arguments = new String[3 + more.length];
        arguments[0] = HERE + "::" + factory;
        arguments[1] = from.toString();
        arguments[2] = file.toString();
        System.arraycopy(more, 0, arguments, 3, more.length);
        out.reset();
        err.reset();
        return TopologyExporter.run(arguments, new PrintStream(out), new PrintStream(err));
    }

    @Test
    public void theFileIsWrittenAndCurrent() throws Exception {
        TopologyExporter.write(builder().build(), properties(), file);
        TopologyExporter.assertCurrent(builder().build(), properties(), file);
        String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
        assertTrue(text, text.contains("ApplicationId: shop\n"));
        assertTrue(text, text.contains("{Name: shop-users-changelog, "));
    }

    @Test
    public void aStaleFileIsAnErrorThatNamesTheLine() throws Exception {
        TopologyExporter.write(builder().build(), properties(), file);
        Topology other = new StreamsBuilder().build().addSource("in", "in");
        AssertionError stale = assertThrows(AssertionError.class, () -> TopologyExporter.assertCurrent(other, properties(), file));
        assertTrue(stale.getMessage(), stale.getMessage().contains("topology.yaml is stale: line "));
    }

    @Test
    public void theCommandSaysWhatItHasWritten() {
        assertEquals(err.toString(), 0, run("builder", settings));
        String line = out.toString();
        assertTrue(line, line.matches("/.*/topology\\.yaml is written: 2 subtopologies, Digest [0-9a-f]{32}\\R"));
        assertEquals(err.toString(), 0, run("builder", settings, "--check"));
        assertEquals(line.replace("is written", "is current"), out.toString());
    }

    @Test
    public void aMistakeIsASentenceWithoutATrace() throws Exception {
        assertMistake("is written by nobody", "has no static method missing()", run("missing", settings));
        assertMistake("an instance is needed", "has no static method notStatic()", run("notStatic", settings));
        assertMistake("no file", "cannot be read", run("builder", folder.getRoot().toPath().resolve("none.properties")));
        Files.write(settings, Collections.emptyList());
        assertMistake("no id", "Missing required configuration \"application.id\"", run("builder", settings));
        String[] unknown = {"com.example.None::topology", settings.toString(), file.toString()};
        err.reset();
        int status = TopologyExporter.run(unknown, new PrintStream(out), new PrintStream(err));
        assertMistake("no class", "put the application and its libraries on the class path", status);
    }

    private void assertMistake(String why, String sentence, int status) {
        assertEquals(why, 2, status);
        assertTrue(err.toString(), err.toString().contains(sentence));
        assertTrue(err.toString(), !err.toString().contains("\tat "));
    }

    @Test
    public void whatTheApplicationThrowsIsShown() {
        assertEquals(2, run("broken", settings));
        assertTrue(err.toString(), err.toString().contains("broken failed:"));
        assertTrue(err.toString(), err.toString().contains("no topology today"));
        assertEquals("not 1, which says that a file is stale", 2, run("unbuildable", settings));
        assertTrue(err.toString(), err.toString().contains("cannot be built:"));
        assertTrue(err.toString(), err.toString().contains("a source is missing"));
        String[] arguments = {HERE + "$Uninitializable::builder", settings.toString(), file.toString()};
        err.reset();
        assertEquals(2, TopologyExporter.run(arguments, new PrintStream(out), new PrintStream(err)));
        assertTrue(err.toString(), err.toString().contains("NumberFormatException"));
    }
}
