package bellwether;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs classes of tests, one test after the other, and writes a line of JSON for each test and for each plan that was
 * compared with Kafka's own. Arguments: the file, then the classes.
 */
public final class Report implements TestExecutionListener {
    private static BufferedWriter lines;
    private static ObjectNode running = Ask.JSON.createObjectNode();
    private static int asked;
    private static long began;

    private Report() {}

    public static void main(String[] arguments) throws IOException {
        List<String> classes = new ArrayList<>(List.of(arguments).subList(1, arguments.length));
        lines = Files.newBufferedWriter(Path.of(arguments[0]));
        var request = LauncherDiscoveryRequestBuilder.request();
        classes.forEach(name -> request.selectors(DiscoverySelectors.selectClass(name)));
        LauncherFactory.create().execute(request.build(), new Report());
        lines.close();
        System.exit(0);
    }

    static void asked() {
        asked++;
    }

    /** Methods of which `looksAhead`. */
    private static final List<String> AHEAD = List.of(System.getProperty("bellwether.ahead", "").split(","));

    /** Among the measures of a plan: those of what it comes to. */
    public static final String AT_REST = "at rest";

    /** Our plan beside Kafka's own for the same question; of each measure less is better, the first one counts most. */
    public static synchronized void compared(boolean same, ObjectNode ours, ObjectNode theirs) {
        ObjectNode line = running.deepCopy().put("kind", "plan").put("same", same);
        line.set("own", ours);
        line.set("theirs", theirs);
        write(line);
    }

    /** Whether what plans of the running test come to is to be compared, too. */
    public static boolean looksAhead() {
        return AHEAD.contains(running.get("method").asText());
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        if (test.isTest()) {
            running = named(test);
            asked = 0;
            began = System.nanoTime();
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        if (test.isTest()) {
            write(named(test).put("kind", "test").put("failure", "skipped: " + reason).put("asked", 0).put("seconds", 0));
        }
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean passed = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
        if (!test.isTest() && passed) {
            return;
        }
        String failure = passed ? "" : result.getThrowable().map(Report::told).orElse(result.getStatus().toString());
        write((test.isTest() ? running.deepCopy() : named(test))
            .put("kind", "test")
            .put("failure", failure)
            .put("asked", asked)
            .put("seconds", (System.nanoTime() - began) / 1e9));
    }

    /** A class that fails as a whole (before its tests, say) has no method. */
    /** With the cause, which is all that the random tests say. */
    private static String told(Throwable failure) {
        return failure.getCause() == null ? failure.toString() : failure + "\nCaused by: " + failure.getCause();
    }

    private static ObjectNode named(TestIdentifier test) {
        ObjectNode named = Ask.JSON.createObjectNode().put("test_class", "").put("method", "");
        test.getSource().ifPresent(source -> {
            if (source instanceof MethodSource) {
                MethodSource method = (MethodSource) source;
                named.put("test_class", simple(method.getClassName())).put("method", method.getMethodName().split("[\\[(]")[0]);
            } else if (source instanceof ClassSource) {
                named.put("test_class", simple(((ClassSource) source).getClassName()));
            }
        });
        return named.put("name", test.getDisplayName());
    }

    private static String simple(String name) {
        return name.substring(name.lastIndexOf('.') + 1);
    }

    private static synchronized void write(ObjectNode line) {
        try {
            lines.write(Ask.JSON.writeValueAsString(line) + "\n");
            lines.flush();
        } catch (IOException lost) {
            throw new UncheckedIOException(lost);
        }
    }
}
