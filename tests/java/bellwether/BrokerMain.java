package bellwether;

import java.io.IOException;

/** Runs a Kafka node that dies with the test run which started it: when stdin closes, the JVM halts. */
public final class BrokerMain {
    private BrokerMain() {}

    public static void main(String[] arguments) {
        Thread watch = new Thread(BrokerMain::haltAtEndOfInput, "end-of-input");
        watch.setDaemon(true);
        watch.start();
        kafka.Kafka.main(arguments);
    }

    private static void haltAtEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                // Nothing is ever written; only the end matters.
            }
        } catch (IOException closed) {
            // The same as the end.
        }
        Runtime.getRuntime().halt(1);
    }
}
