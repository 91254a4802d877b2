package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.internals.KafkaFutureImpl;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.ReferenceContainer;
import org.apache.kafka.streams.state.HostInfo;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka's whole leader of a Streams group as a referee: the bytes of subscriptions in, the bytes of assignments out. In
 * Kafka's package to reach what it needs. Only brokers are stood in for: topics, end offsets and the clock come from the
 * problem. Reads one problem per line as JSON and prints one answer per line.
 *
 * Problem: subtopologies [{sources, repartition_sources, repartition_sinks, stores, source_changelog}] by names without
 * the application's prefix where Kafka adds it, counts {topic: partitions}, ends {topic: [offsets]} or null where they
 * cannot be read, configs {name: value}, leader and future (process ids), now_ms, members [[id, bytes in base64]].
 * Answer: members {id: bytes in base64}, or error.
 */
public final class LeaderReferee {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String APPLICATION = "app";

    private LeaderReferee() {
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(line), answer);
            } catch (ReflectiveOperationException | RuntimeException error) {
                answer.put("error", error.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static void answer(JsonNode problem, ObjectNode answer) throws ReflectiveOperationException {
        Map<String, Subscription> members = new LinkedHashMap<>();
        for (JsonNode member : problem.get("members")) {
            ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(member.get(1).asText()));
            members.put(member.get(0).asText(), ConsumerProtocol.deserializeSubscription(bytes));
        }
        StreamsPartitionAssignor leader = leader(problem);
        ObjectNode rows = JSON.createObjectNode();
        leader.assign(cluster(problem.get("counts")), new GroupSubscription(members)).groupAssignment().forEach(
            (member, assignment) -> {
                ByteBuffer bytes = ConsumerProtocol.serializeAssignment(assignment);
                byte[] copy = new byte[bytes.remaining()];
                bytes.get(copy);
                rows.put(member, Base64.getEncoder().encodeToString(copy));
            });
        answer.set("members", rows);
    }

    private static StreamsPartitionAssignor leader(JsonNode problem) throws ReflectiveOperationException {
        Map<String, Object> configs = new HashMap<>();
        problem.get("configs").fields().forEachRemaining(config -> configs.put(config.getKey(), config.getValue().asText()));
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        StreamsConfig streams = new StreamsConfig(configs);
        TopologyMetadata topology = new TopologyMetadata(topology(problem.get("subtopologies")), streams);
        topology.buildAndRewriteTopology();
        Time time = standIn(Time.class, Map.of("milliseconds", problem.get("now_ms").asLong()));

        nameFutureProcess(problem.get("future").asText());
        ReferenceContainer container = new ReferenceContainer();
        container.adminClient = admin(problem.get("ends"));
        container.mainConsumer = consumer(problem.get("ends"));
        container.taskManager = new TaskManager(
            time, null, new ProcessId(UUID.fromString(problem.get("leader").asText())), "", null, null, null, topology,
            container.adminClient, null, null, null);
        container.streamsMetadataState = new StreamsMetadataState(topology, new HostInfo("here", 1), new LogContext());
        container.time = time;
        container.clientTags = Map.of();
        configs.put(StreamsConfig.InternalConfig.REFERENCE_CONTAINER_PARTITION_ASSIGNOR, container);
        StreamsPartitionAssignor leader = new StreamsPartitionAssignor();
        leader.configure(configs);
        leader.setInternalTopicManager(new InternalTopicManager(time, container.adminClient, streams) {
            @Override
            public Set<String> makeReady(Map<String, InternalTopicConfig> topics) {
                return Set.of();
            }
        });
        return leader;
    }

    /** All members of a future version are one process of a random id; which one decides who comes first. */
    private static void nameFutureProcess(String id) throws ReflectiveOperationException {
        Field future = StreamsPartitionAssignor.class.getDeclaredField("FUTURE_ID");
        future.setAccessible(true);
        Field uuid = ProcessId.class.getDeclaredField("id");
        uuid.setAccessible(true);
        uuid.set(future.get(null), UUID.fromString(id));
    }

    private static InternalTopologyBuilder topology(JsonNode subtopologies) throws ReflectiveOperationException {
        Topology topology = new Topology();
        Field field = Topology.class.getDeclaredField("internalTopologyBuilder");
        field.setAccessible(true);
        InternalTopologyBuilder builder = (InternalTopologyBuilder) field.get(topology);
        int number = 0;
        for (JsonNode subtopology : subtopologies) {
            String node = String.format("%02d", number++);
            List<String> sources = new ArrayList<>(texts(subtopology.get("sources")));
            for (String name : texts(subtopology.get("repartition_sources"))) {
                builder.addInternalTopic(name, InternalTopicProperties.empty());
                sources.add(name);
            }
            String[] names = new String[sources.size()];
            Arrays.setAll(names, i -> node + "-source-" + i);
            for (int i = 0; i < names.length; i++) {
                topology.addSource(names[i], sources.get(i));
            }
            ProcessorSupplier<Object, Object, Object, Object> idle = Idle::new;
            topology.addProcessor(node + "-processor", idle, names);
            for (String store : texts(subtopology.get("stores"))) {
                topology.addStateStore(
                    Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(store), Serdes.Bytes(), Serdes.Bytes()),
                    node + "-processor");
            }
            if (subtopology.get("source_changelog").asBoolean()) {
                builder.connectSourceStoreAndTopic(texts(subtopology.get("stores")).get(0), sources.get(0));
            }
            for (String sink : texts(subtopology.get("repartition_sinks"))) {
                topology.addSink(node + "-to-" + sink, sink, node + "-processor");
            }
        }
        return builder;
    }

    private static List<String> texts(JsonNode list) {
        List<String> texts = new ArrayList<>();
        list.forEach(text -> texts.add(text.asText()));
        return texts;
    }

    private static Cluster cluster(JsonNode counts) {
        Node node = new Node(1, "nowhere", 1);
        Node[] replicas = {node};
        List<PartitionInfo> partitions = new ArrayList<>();
        counts.fields().forEachRemaining(topic -> {
            for (int partition = 0; partition < topic.getValue().asInt(); partition++) {
                partitions.add(new PartitionInfo(topic.getKey(), partition, node, replicas, replicas));
            }
        });
        return new Cluster("cluster", List.of(node), partitions, Set.of(), Set.of());
    }

    private static long end(JsonNode ends, TopicPartition partition) {
        return ends.get(partition.topic()).get(partition.partition()).asLong();
    }

    private static Admin admin(JsonNode ends) {
        return standIn(Admin.class, (proxy, method, arguments) -> {
            if (!method.getName().equals("listOffsets")) {
                throw new UnsupportedOperationException(method.toString());
            }
            Map<TopicPartition, KafkaFuture<ListOffsetsResultInfo>> found = new HashMap<>();
            for (Object asked : ((Map<?, ?>) arguments[0]).keySet()) {
                TopicPartition partition = (TopicPartition) asked;
                KafkaFutureImpl<ListOffsetsResultInfo> future = new KafkaFutureImpl<>();
                if (ends.isNull()) {
                    future.completeExceptionally(new TimeoutException("no answer"));
                } else {
                    future.complete(new ListOffsetsResultInfo(end(ends, partition), -1, Optional.empty()));
                }
                found.put(partition, future);
            }
            return new ListOffsetsResult(found);
        });
    }

    private static Consumer<byte[], byte[]> consumer(JsonNode ends) {
        return standIn(Consumer.class, (proxy, method, arguments) -> {
            if (!method.getName().equals("committed")) {
                throw new UnsupportedOperationException(method.toString());
            }
            if (ends.isNull()) {
                throw new TimeoutException("no answer");
            }
            Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
            for (Object asked : (Collection<?>) arguments[0]) {
                TopicPartition partition = (TopicPartition) asked;
                found.put(partition, new OffsetAndMetadata(end(ends, partition)));
            }
            return found;
        });
    }

    private static <T> T standIn(Class<T> face, Map<String, Object> answers) {
        return standIn(face, (proxy, method, arguments) -> {
            if (!answers.containsKey(method.getName())) {
                throw new UnsupportedOperationException(method.toString());
            }
            return answers.get(method.getName());
        });
    }

    @SuppressWarnings("unchecked")
    private static <T> T standIn(Class<?> face, InvocationHandler handler) {
        return (T) Proxy.newProxyInstance(LeaderReferee.class.getClassLoader(), new Class<?>[] {face}, handler);
    }

    private static final class Idle implements Processor<Object, Object, Object, Object> {
        @Override
        public void process(Record<Object, Object> record) {
        }
    }
}
