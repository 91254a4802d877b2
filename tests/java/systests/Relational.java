package bellwether;

import java.time.Duration;
import java.time.Instant;
import org.apache.kafka.streams.tests.RelationalSmokeTest.App;
import org.apache.kafka.streams.tests.RelationalSmokeTest.DataSet;

/**
 * Starts the parts of Kafka's relational smoke test. Its own main makes up an application id for each instance, which
 * nobody can lead from the first start and which lets instances share no work, and fixes the load.
 */
public final class Relational {
    private static final int ARTICLES = 300;
    private static final int COMMENTS = 3_000;
    private static final Duration PRODUCING = Duration.ofMinutes(1);
    private static final Duration PATIENCE = Duration.ofMinutes(5);

    private Relational() { }

    /**
     * "application" with bootstrap.servers, application.id, the name of the instance, processing.guarantee and
     * state.dir; or "driver" with bootstrap.servers.
     */
    public static void main(final String[] args) throws InterruptedException {
        if (args[0].equals("application")) {
            App.startSync(args[1], args[2], args[3], args[4], "classic", args[5]);
            return;
        }
        DataSet.generate(ARTICLES, COMMENTS).produce(args[1], PRODUCING);
        final boolean passed = App.verifySync(args[1], Instant.now().plus(PATIENCE));
        System.out.println("Smoke test complete: " + (passed ? "passed" : "failed"));
    }
}
