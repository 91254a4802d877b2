package bellwether;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * A JVM leader's whole work on the bytes of one scenario file: decode every subscription, assign, encode every
 * assignment. Arguments: scenario, file for the assignments of the last run, seconds of warm-up, seconds of measuring,
 * least number of runs in each of these, most runs in either. Prints one line for the very first run and for each
 * measured one: nanoseconds of decode, assign, encode. One more argument: the broker's uniform assignor instead of the
 * one that the protocol names, of which only assign() is timed.
 */
public final class BenchMain {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final boolean CPU = "cpu".equals(System.getenv("BENCH_CLOCK"));
    private final String protocol;
    private final Cluster cluster;
    private final List<String> memberIds = new ArrayList<>();
    private final List<byte[]> metadata = new ArrayList<>();
    private final Map<String, ByteBuffer> answer = new LinkedHashMap<>();
    private ConsumerPartitionAssignor assignor;
    private boolean first = true;

    private BenchMain(Path scenario, boolean uniform) throws IOException {
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(scenario)))) {
            String spoken = text(in);
            protocol = uniform ? "uniform" : spoken;
            cluster = cluster(in);
            int members = in.readInt();
            for (int m = 0; m < members; m++) {
                memberIds.add(text(in));
                metadata.add(in.readNBytes(in.readInt()));
            }
        }
    }

    public static void main(String[] arguments) throws IOException {
        BenchMain bench = new BenchMain(Path.of(arguments[0]), arguments.length > 7);
        int most = Integer.parseInt(arguments[6]);
        bench.repeat(Double.parseDouble(arguments[2]), Integer.parseInt(arguments[4]), most, false);
        bench.repeat(Double.parseDouble(arguments[3]), Integer.parseInt(arguments[5]), most, true);
        bench.write(Path.of(arguments[1]));
    }

    private void repeat(double seconds, int least, int most, boolean print) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        for (int run = 0; run < least || (System.nanoTime() < end && run < most); run++) {
            // A leader keeps its assignor for its lifetime, but nothing that it remembers may help the next run here.
            assignor = assignor();
            long start = now();
            GroupSubscription group = decode();
            long decoded = now();
            Map<String, Assignment> plan = assignor.assign(cluster, group).groupAssignment();
            long assigned = now();
            answer.clear();
            plan.forEach((member, part) -> answer.put(member, ConsumerProtocol.serializeAssignment(part)));
            long encoded = now();
            if (print || first) {
                System.out.println(
                    assignor instanceof UniformAdapter uniform
                        ? "0 " + uniform.nanos + " 0"
                        : (decoded - start) + " " + (assigned - decoded) + " " + (encoded - assigned));
                first = false;
            }
        }
    }

    /** Nanoseconds; with BENCH_CLOCK=cpu those of this thread's CPU time, without compiler and garbage collector. */
    static long now() {
        return CPU ? THREADS.getCurrentThreadCpuTime() : System.nanoTime();
    }

    private GroupSubscription decode() {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (int m = 0; m < memberIds.size(); m++) {
            Subscription one = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(metadata.get(m)));
            one.setGroupInstanceId(Optional.empty());
            subscriptions.put(memberIds.get(m), one);
        }
        return new GroupSubscription(subscriptions);
    }

    private ConsumerPartitionAssignor assignor() {
        switch (protocol) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            case "cooperative-sticky":
                return new CooperativeStickyAssignor();
            case "uniform":
                return new UniformAdapter();
            default:
                throw new IllegalArgumentException("no assignor " + protocol);
        }
    }

    private void write(Path path) throws IOException {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(path)))) {
            for (String member : memberIds) {
                ByteBuffer bytes = answer.get(member);
                out.writeInt(bytes.remaining());
                out.write(bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
            }
        }
    }

    private static Cluster cluster(DataInputStream in) throws IOException {
        List<Node> nodes = new ArrayList<>();
        int nodeCount = in.readInt();
        for (int n = 0; n < nodeCount; n++) {
            String rack = text(in);
            nodes.add(new Node(n, "host", 9092, rack.isEmpty() ? null : rack));
        }
        List<PartitionInfo> partitions = new ArrayList<>();
        int topicCount = in.readInt();
        for (int t = 0; t < topicCount; t++) {
            String topic = text(in);
            int count = in.readInt();
            for (int p = 0; p < count; p++) {
                Node[] replicas = new Node[in.readUnsignedByte()];
                for (int r = 0; r < replicas.length; r++) {
                    replicas[r] = nodes.get(in.readUnsignedByte());
                }
                partitions.add(new PartitionInfo(topic, p, replicas[0], replicas, replicas));
            }
        }
        return new Cluster("bench", nodes, partitions, Set.of(), Set.of());
    }

    private static String text(DataInputStream in) throws IOException {
        return new String(in.readNBytes(in.readUnsignedShort()), StandardCharsets.UTF_8);
    }
}
