package bellwether;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * The broker's assignors as a referee. Reads one group per line as JSON and prints per line what each member is given.
 *
 * <p>`uniform` and `range`: partitions [count of each topic], members [[id, instance or null, [topic], {topic: [owned
 * partition]}]]; answers {id: [[topic, partition]]}. `sticky`: subtopologies [[id, tasks, stateful]], standbys, members
 * [[id, process, [[subtopology, partition]] active, the same of standbys, [[subtopology,
 * partition, offset]], rack]]; answers {id: [active, standby]}.
 *
 * <p>Members and what they own keep the order of the input, and topic ids count up from 1, so that every table which a
 * broker fills in an order of its own making has a known order here.
 */
public final class BrokerSideReferee {
    private static final ObjectMapper JSON = new ObjectMapper();

    private BrokerSideReferee() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = lines.readLine()) != null) {
            JsonNode group = JSON.readTree(line);
            out.println(group.get("assignor").asText().equals("sticky") ? StickyReferee.tasks(group) : partitions(group));
        }
        out.flush();
    }

    private static ObjectNode partitions(JsonNode group) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode member : group.get("members")) {
            String name = member.get(0).asText();
            Set<Uuid> topics = new HashSet<>();
            member.get(2).forEach(topic -> topics.add(topicId(topic.asInt())));
            Map<Uuid, Set<Integer>> owned = new LinkedHashMap<>();
            member.get(3).fields().forEachRemaining(entry -> {
                Uuid topic = topicId(Integer.parseInt(entry.getKey()));
                Set<Integer> numbers = owned.computeIfAbsent(topic, any -> new LinkedHashSet<>());
                entry.getValue().forEach(number -> {
                    numbers.add(number.asInt());
                    owners.computeIfAbsent(topic, any -> new HashMap<>()).put(number.asInt(), name);
                });
            });
            subscriptions.add(topics);
            Optional<String> instance = Optional.ofNullable(member.get(1).textValue());
            members.put(name, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, topics, new Assignment(Collections.unmodifiableMap(owned))));
        }
        SubscriptionType type =
            subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        ConsumerGroupPartitionAssignor assignor =
            group.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberAssignment> plan =
            assignor.assign(new GroupSpecImpl(members, type, owners), sizes(group.get("partitions"))).members();
        ObjectNode told = JSON.createObjectNode();
        plan.forEach((member, given) -> {
            ArrayNode found = told.putArray(member);
            given.partitions().forEach((topic, numbers) -> numbers.forEach(
                number -> found.addArray().add(topic.getLeastSignificantBits() - 1).add(number)));
        });
        return told;
    }

    private static SubscribedTopicDescriber sizes(JsonNode partitions) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return partitions.get((int) topic.getLeastSignificantBits() - 1).asInt();
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                throw new IllegalStateException("no assignor of this release asks for racks");
            }
        };
    }

    private static Uuid topicId(int topic) {
        return new Uuid(0, topic + 1);
    }
}
