package bellwether;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Hosts Java consumers, one thread each. Lines on stdin start and stop them (tab separated: "join", key=value ... and
 * "leave", name=...); JSON lines on stdout say what each of them owns and has consumed. End of input stops all of them.
 */
public final class MemberMain {
    private static final Map<String, Class<?>> ASSIGNORS = Map.of(
        "range", RangeAssignor.class,
        "roundrobin", RoundRobinAssignor.class,
        "sticky", StickyAssignor.class,
        "cooperative-sticky", CooperativeStickyAssignor.class);
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    private MemberMain() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        Runtime.getRuntime().addShutdownHook(new Thread(MemberMain::stopAll));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            Map<String, String> fields = fields(line);
            if (line.startsWith("join\t")) {
                Member member = new Member(fields);
                MEMBERS.put(fields.get("name"), member);
                member.thread.start();
            } else if (line.startsWith("leave\t")) {
                Member member = MEMBERS.remove(fields.get("name"));
                if (member != null) {
                    member.stop();
                }
            }
        }
        stopAll();
    }

    private static void stopAll() {
        List<Member> all = new ArrayList<>(MEMBERS.values());
        all.forEach(Member::stop);
        for (Member member : all) {
            try {
                member.thread.join(10_000);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }

    private static Map<String, String> fields(String line) {
        Map<String, String> found = new HashMap<>();
        for (String part : line.split("\t")) {
            int equals = part.indexOf('=');
            if (equals > 0) {
                found.put(part.substring(0, equals), part.substring(equals + 1));
            }
        }
        return found;
    }

    private static synchronized void emit(String event, String member, String rest) {
        OUT.print("{\"event\":\"" + event + "\",\"member\":\"" + member + "\"" + rest
            + ",\"t_ms\":" + System.currentTimeMillis() + "}\n");
        OUT.flush();
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else {
                out.append(c < ' ' ? ' ' : c);
            }
        }
        return out.append('"').toString();
    }

    /** One consumer and the thread that polls it. */
    private static final class Member implements Runnable, ConsumerRebalanceListener {
        private final Map<String, String> fields;
        private final String name;
        private final Thread thread;
        private volatile boolean stopping;
        private volatile KafkaConsumer<byte[], byte[]> consumer;

        Member(Map<String, String> fields) {
            this.fields = fields;
            this.name = fields.get("name");
            this.thread = new Thread(this, name);
        }

        void stop() {
            stopping = true;
            KafkaConsumer<byte[], byte[]> running = consumer;
            if (running != null) {
                running.wakeup();
            }
        }

        @Override
        public void run() {
            try (KafkaConsumer<byte[], byte[]> opened = new KafkaConsumer<>(configuration())) {
                consumer = opened;
                if (fields.containsKey("pattern")) {
                    opened.subscribe(Pattern.compile(fields.get("pattern")), this);
                } else {
                    opened.subscribe(List.of(fields.get("topics").split(",")), this);
                }
                emit("joined", name, "");
                while (!stopping) {
                    pollOnce();
                }
            } catch (RuntimeException failure) {
                emit("error", name, ",\"text\":" + quoted(String.valueOf(failure)));
            }
            emit("stopped", name, "");
        }

        private void pollOnce() {
            try {
                report(consumer.poll(Duration.ofMillis(100)));
            } catch (WakeupException wakeup) {
                // Asked to stop; the loop looks.
            }
        }

        /** Printed before the next poll: only then can these records be committed, so nothing goes unreported. */
        private void report(ConsumerRecords<byte[], byte[]> records) {
            if (records.isEmpty()) {
                return;
            }
            List<String> ranges = new ArrayList<>();
            for (TopicPartition partition : records.partitions()) {
                long first = -1;
                long last = -1;
                for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                    if (first >= 0 && record.offset() != last + 1) {
                        ranges.add(range(partition, first, last));
                        first = -1;
                    }
                    first = first < 0 ? record.offset() : first;
                    last = record.offset();
                }
                ranges.add(range(partition, first, last));
            }
            emit("consumed", name, ",\"ranges\":[" + String.join(",", ranges) + "]");
        }

        private static String range(TopicPartition partition, long first, long last) {
            return "[\"" + partition.topic() + "\"," + partition.partition() + "," + first + "," + last + "]";
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            moved("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            moved("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            moved("lost", partitions);
        }

        private void moved(String event, Collection<TopicPartition> partitions) {
            List<String> listed = new ArrayList<>();
            partitions.forEach(p -> listed.add("[\"" + p.topic() + "\"," + p.partition() + "]"));
            emit(event, name, ",\"partitions\":[" + String.join(",", listed) + "]");
        }

        private Properties configuration() {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", fields.get("bootstrap"));
            properties.put("group.id", fields.get("group"));
            properties.put("client.id", name);
            properties.put("key.deserializer", ByteArrayDeserializer.class);
            properties.put("value.deserializer", ByteArrayDeserializer.class);
            properties.put("auto.offset.reset", "earliest");
            properties.put("auto.commit.interval.ms", "500");
            properties.put("max.poll.interval.ms", "30000");
            properties.put("allow.auto.create.topics", "false");
            if (fields.containsKey("rack")) {
                properties.put("client.rack", fields.get("rack"));
            }
            if (fields.containsKey("instance")) {
                properties.put("group.instance.id", fields.get("instance"));
            }
            if (fields.getOrDefault("protocol", "classic").equals("consumer")) {
                properties.put("group.protocol", "consumer");
            } else {
                properties.put("session.timeout.ms", fields.get("session_ms"));
                properties.put("heartbeat.interval.ms", fields.getOrDefault("heartbeat_ms", "500"));
                List<Class<?>> chosen = new ArrayList<>();
                for (String assignor : fields.get("assignors").split(",")) {
                    chosen.add(ASSIGNORS.get(assignor));
                }
                properties.put("partition.assignment.strategy", chosen);
            }
            fields.forEach((key, value) -> {
                if (key.startsWith("property.")) {
                    properties.put(key.substring("property.".length()), value);
                }
            });
            return properties;
        }
    }
}
