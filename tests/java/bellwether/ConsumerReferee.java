package bellwether;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
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
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's consumer assignors as a referee. Reads one group per line as JSON: protocol, topics [[name, [rack of each
 * partition's one replica, or null]]], members [[id, instance or null, subscription in hex]]. Prints per line what each
 * member is given, [[topic, partition]] in Java's order.
 */
public final class ConsumerReferee {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ConsumerReferee() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = lines.readLine()) != null) {
            out.println(answer(JSON.readTree(line)));
        }
        out.flush();
    }

    private static ObjectNode answer(JsonNode group) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            byte[] bytes = HexFormat.of().parseHex(member.get(2).asText());
            Subscription one = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(bytes));
            one.setGroupInstanceId(member.get(1).isNull() ? Optional.empty() : Optional.of(member.get(1).asText()));
            subscriptions.put(member.get(0).asText(), one);
        }
        Map<String, Assignment> plan = assignor(group.get("protocol").asText())
            .assign(cluster(group.get("topics")), new GroupSubscription(subscriptions)).groupAssignment();
        ObjectNode told = JSON.createObjectNode();
        plan.forEach((member, given) -> {
            ArrayNode partitions = told.putArray(member);
            for (TopicPartition partition : given.partitions()) {
                partitions.addArray().add(partition.topic()).add(partition.partition());
            }
        });
        return told;
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (JsonNode topic : topics) {
            int number = 0;
            for (JsonNode rack : topic.get(1)) {
                String name = rack.isNull() ? null : rack.asText();
                Node node = nodes.computeIfAbsent(String.valueOf(name), any -> new Node(nodes.size(), "host", 9092, name));
                Node[] replicas = {node};
                partitions.add(new PartitionInfo(topic.get(0).asText(), number++, node, replicas, replicas));
            }
        }
        return new Cluster("referee", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static ConsumerPartitionAssignor assignor(String protocol) {
        switch (protocol) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            default:
                return new CooperativeStickyAssignor();
        }
    }
}
