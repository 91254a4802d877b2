package bellwether;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Runs a Kafka node that dies with the test run which started it: when stdin closes, the JVM halts. With
 * {@code -Dbellwether.calls=NAME} it prints each call of this assignor, from what JMX shows.
 */
public final class BrokerMain {
    private BrokerMain() {}

    public static void main(String[] arguments) {
        Thread watch = new Thread(BrokerMain::haltAtEndOfInput, "end-of-input");
        watch.setDaemon(true);
        watch.start();
        String assignor = System.getProperty("bellwether.calls");
        if (assignor != null) {
            Thread calls = new Thread(() -> printCalls(assignor), "calls");
            calls.setDaemon(true);
            calls.start();
        }
        kafka.Kafka.main(arguments);
    }

    /** Calls of one group are a second apart, so a line is one call, or rarely several with their sum. */
    private static void printCalls(String assignor) {
        MBeanServer shown = ManagementFactory.getPlatformMBeanServer();
        long plans = 0;
        long fallbacks = 0;
        double ms = 0;
        try {
            ObjectName name = new ObjectName("bellwether:type=assignor,name=" + assignor);
            while (true) {
                Thread.sleep(5);
                if (!shown.isRegistered(name)) {
                    continue;
                }
                long plansNow = (Long) shown.getAttribute(name, "Plans");
                long fallbacksNow = (Long) shown.getAttribute(name, "Fallbacks");
                if (plansNow + fallbacksNow == plans + fallbacks) {
                    continue;
                }
                double msNow = (Double) shown.getAttribute(name, "TotalMs");
                System.out.println("{\"plans\":" + (plansNow - plans) + ",\"fallbacks\":" + (fallbacksNow - fallbacks)
                    + ",\"ms\":" + (msNow - ms) + ",\"t_ms\":" + System.currentTimeMillis() + "}");
                plans = plansNow;
                fallbacks = fallbacksNow;
                ms = msNow;
            }
        } catch (JMException | InterruptedException ended) {
            System.out.println("calls are no longer printed: " + ended);
        }
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
