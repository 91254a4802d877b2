package bellwether.broker;

import java.io.IOException;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The way to one Bellwether, shared by all assignors of a broker for groups of one kind, with a connection for each
 * thread. At the start, and after a few misses in a row, no group is asked for until a thread beside has got the plan of
 * an invented one in time. Large applications, whose plans are late, do not end the plans of consumers so.
 */
final class Link {
    static final String ADDRESS = "bellwether.assignor.address";
    static final String DEADLINE_MS = "bellwether.assignor.deadline.ms";
    static final String TASKS_DEADLINE_MS = "bellwether.assignor.tasks.deadline.ms";
    static final int VERSION = 1;
    static final int CONSUMERS = 1;
    static final int TASKS = 3;
    static final Link NONE = new Link(null, 0, "this assignor has not been configured");

    private static final Logger LOG = LoggerFactory.getLogger(Link.class);
    private static final Map<String, Link> LINKS = new ConcurrentHashMap<>();
    private static final String ADDRESS_DEFAULT = "unix:/run/bellwether/assignor.sock";
    private static final int DEADLINE_MS_DEFAULT = 20;
    private static final int TASKS_DEADLINE_MS_DEFAULT = 200;
    private static final int DEADLINE_MS_MAX = 1_000;
    private static final int PROBE = 2;
    private static final int PLANNED = 0;
    private static final int MISSES_MAX = 3;
    private static final long PROBE_MS = 500;

    private final long deadlineNanos;
    private final AtomicInteger misses = new AtomicInteger(MISSES_MAX);
    private final AtomicInteger numbers = new AtomicInteger();
    private final ThreadLocal<Line> lines;
    private volatile String lastMiss;

    Link(SocketAddress address, long deadlineMs, String lastMiss) {
        this.lastMiss = lastMiss;
        this.deadlineNanos = TimeUnit.MILLISECONDS.toNanos(deadlineMs);
        this.lines = ThreadLocal.withInitial(() -> new Line(address));
    }

    /** The link that a broker's properties describe. Does not throw: a broker starts also with a wrong one. */
    static Link configured(Map<String, ?> configs, int kind) {
        String address = text(configs, ADDRESS, ADDRESS_DEFAULT);
        String deadline = kind == TASKS ? text(configs, TASKS_DEADLINE_MS, String.valueOf(TASKS_DEADLINE_MS_DEFAULT))
            : text(configs, DEADLINE_MS, String.valueOf(DEADLINE_MS_DEFAULT));
        return LINKS.computeIfAbsent(address + " " + deadline + " " + kind, any -> opened(address, deadline));
    }

    private static String text(Map<String, ?> configs, String name, String otherwise) {
        return Objects.toString(configs.get(name), otherwise).trim();
    }

    private static Link opened(String address, String deadline) {
        try {
            int deadlineMs = Integer.parseInt(deadline);
            if (deadlineMs < 1 || deadlineMs > DEADLINE_MS_MAX) {
                throw new IllegalArgumentException("the deadline must be from 1 to " + DEADLINE_MS_MAX);
            }
            Link made = new Link(parsed(address), deadlineMs, "Bellwether has not been asked yet");
            Thread probe = new Thread(made::probe, "bellwether-assignor-probe");
            probe.setDaemon(true);
            probe.start();
            return made;
        } catch (IllegalArgumentException wrong) {
            String why = ADDRESS + " is " + address + ", the deadline " + deadline + " ms: " + wrong.getMessage();
            LOG.error("No plan will come from Bellwether: {}. Correct the broker's properties.", why);
            return new Link(null, 0, why);
        }
    }

    /** {@code unix:/path}, or {@code host:port} of this machine: a plan is asked for without a login. */
    private static SocketAddress parsed(String address) {
        if (address.startsWith("unix:")) {
            return UnixDomainSocketAddress.of(address.substring("unix:".length()));
        }
        int colon = address.lastIndexOf(':');
        if (colon < 1) {
            throw new IllegalArgumentException("write unix:/path or host:port");
        }
        String host = address.substring(0, colon).replaceAll("^\\[|]$", "");
        try {
            InetAddress found = InetAddress.getByName(host);
            if (!found.isLoopbackAddress()) {
                throw new IllegalArgumentException(host + " is not an address of the loopback interface");
            }
            return new InetSocketAddress(found, Integer.parseInt(address.substring(colon + 1)));
        } catch (UnknownHostException unknown) {
            throw new IllegalArgumentException(host + " has no address", unknown);
        }
    }

    boolean usable() {
        return misses.get() < MISSES_MAX;
    }

    /** A complete and valid plan. Throws where there is none in time; the message says why. */
    int[] plan(int kind, String assignor, Question group) throws IOException, RefusedException {
        if (!usable()) {
            throw new IOException("none has come lately, the last time because: " + lastMiss);
        }
        return asked(kind, assignor, group);
    }

    private int[] asked(int kind, String assignor, Question group) throws IOException, RefusedException {
        try {
            int[] plan = exchanged(kind, assignor, group);
            misses.set(0);
            return plan;
        } catch (IOException | RefusedException | RuntimeException miss) {
            lastMiss = Objects.toString(miss.getMessage(), miss.toString());
            misses.addAndGet(miss instanceof RefusedException ? 0 : 1);
            throw miss;
        }
    }

    private int[] exchanged(int kind, String assignor, Question group) throws IOException, RefusedException {
        int number = numbers.incrementAndGet();
        long deadline = System.nanoTime() + deadlineNanos;
        ByteBuffer answer = lines.get().ask(group.request(kind, assignor, number), deadline);
        int version = answer.get();
        if (version != VERSION) {
            throw new IOException("version " + version + " instead of " + VERSION + "; use the jar of Bellwether's release");
        }
        int status = answer.get();
        if (answer.getInt() != number) {
            throw new IOException("the answer is to another request");
        }
        if (status != PLANNED) {
            throw new RefusedException(StandardCharsets.UTF_8.decode(answer).toString());
        }
        int[] plan = new int[answer.remaining() / Integer.BYTES];
        answer.asIntBuffer().get(plan);
        String fault = group.fault(plan);
        if (fault != null) {
            throw new IOException(fault);
        }
        return plan;
    }

    private void probe() {
        Problem invented = Problem.invented();
        while (!Thread.currentThread().isInterrupted()) {
            try {
                Thread.sleep(PROBE_MS);
                if (!usable()) {
                    asked(PROBE, "bellwether", invented);
                }
            } catch (InterruptedException stopped) {
                return;
            } catch (IOException | RefusedException | RuntimeException silent) {
                // the assignors report it
            }
        }
    }

    /** Bellwether has answered that it gives no plan for this group, and why. */
    static final class RefusedException extends Exception {
        private static final long serialVersionUID = 1;

        RefusedException(String reason) {
            super(reason);
        }
    }
}
