package bellwether.broker;

import java.lang.management.ManagementFactory;
import java.util.concurrent.*;
import javax.management.JMException;
import javax.management.ObjectName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts and times what the assignors of one name have returned, for JMX, and logs each change between plans and
 * fallbacks once. A broker makes several assignors of each class, since each reading of its properties does, and calls
 * one of them.
 */
final class Outcomes implements OutcomesMBean {
    private static final Logger LOG = LoggerFactory.getLogger(BellwetherAssignor.class);
    private static final ConcurrentMap<String, Outcomes> BY_NAME = new ConcurrentHashMap<>();
    private static final double NANOS_PER_MS = 1e6;

    private final String name;
    private final String items;
    private long plans;
    private long fallbacks;
    private double totalMs;
    private double maxMs;
    private String reason = "";
    private Boolean served;

    /** {@code items} are what the assignor assigns: partitions or tasks. */
    static Outcomes of(String name, String items) {
        return BY_NAME.computeIfAbsent(name, any -> new Outcomes(name, items));
    }

    private Outcomes(String name, String items) {
        this.name = name;
        this.items = items;
        try {
            ManagementFactory.getPlatformMBeanServer()
                .registerMBean(this, new ObjectName("bellwether:type=assignor,name=" + name));
        } catch (JMException taken) {
            LOG.debug("JMX shows another instance of the assignor {}", name, taken);
        }
    }

    /** Takes one call; {@code why} is null where the plan was Bellwether's. */
    synchronized void ended(long nanos, Throwable why) {
        totalMs += nanos / NANOS_PER_MS;
        maxMs = Math.max(maxMs, nanos / NANOS_PER_MS);
        plans += why == null ? 1 : 0;
        fallbacks += why == null ? 0 : 1;
        reason = why == null ? reason : String.valueOf(why.getMessage() == null ? why : why.getMessage());
        if (served == null || served != (why == null)) {
            served = why == null;
            if (served) {
                LOG.info("{}: plans come from Bellwether", name);
            } else {
                LOG.warn("{}: no plan from Bellwether: {}. Members keep what they have, and only {} without an owner are"
                    + " placed; see whether Bellwether runs at {}.", name, reason, items, Link.ADDRESS);
            }
        }
    }

    public synchronized long getPlans() {
        return plans;
    }

    public synchronized long getFallbacks() {
        return fallbacks;
    }

    public synchronized String getLastFallback() {
        return reason;
    }

    public synchronized double getTotalMs() {
        return totalMs;
    }

    public synchronized double getMaxMs() {
        return maxMs;
    }
}
