package bellwether;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/** The part of BrokerSideReferee for tasks, by the interface of brokers from Kafka 4.4 on. */
final class StickyReferee {
    private StickyReferee() {}

    static ObjectNode tasks(JsonNode group) {
        Map<String, MemberMetadataAndStateImpl> members = new LinkedHashMap<>();
        for (JsonNode member : group.get("members")) {
            String rack = member.get(5).asText();
            members.put(member.get(0).asText(), new MemberMetadataAndStateImpl(
                Optional.empty(), Optional.of(rack), member.get(1).asText(), Map.of("zone", rack),
                numbers(member.get(2)), numbers(member.get(3)), Map.of(), offsets(member.get(4)), Map.of()));
        }
        AssignmentConfigsImpl configs =
            AssignmentConfigsImpl.DEFAULT.withNumStandbyReplicas(group.get("standbys").asInt())
                .withRackAwareAssignmentTags(List.of("zone"));
        Map<String, MemberAssignment> plan = new StickyTaskAssignor()
            .assign(new GroupSpecImpl(members, configs), topology(group.get("subtopologies"))).members();
        ObjectNode told = new ObjectMapper().createObjectNode();
        plan.forEach((member, given) -> {
            ArrayNode found = told.putArray(member);
            tell(found.addArray(), given.activeTasks());
            tell(found.addArray(), given.standbyTasks());
        });
        return told;
    }

    private static Map<String, Set<Integer>> numbers(JsonNode tasks) {
        Map<String, Set<Integer>> found = new LinkedHashMap<>();
        tasks.forEach(task ->
            found.computeIfAbsent(task.get(0).asText(), any -> new LinkedHashSet<>()).add(task.get(1).asInt()));
        return found;
    }

    private static Map<String, Map<Integer, Long>> offsets(JsonNode tasks) {
        Map<String, Map<Integer, Long>> found = new LinkedHashMap<>();
        tasks.forEach(task -> found.computeIfAbsent(task.get(0).asText(), any -> new LinkedHashMap<>())
            .put(task.get(1).asInt(), task.get(2).asLong()));
        return found;
    }

    private static void tell(ArrayNode out, Map<String, Set<Integer>> tasks) {
        tasks.forEach((subtopology, numbers) -> numbers.forEach(
            number -> out.addArray().add(subtopology).add(number)));
    }

    private static TopologyDescriber topology(JsonNode subtopologies) {
        Map<String, JsonNode> byId = new LinkedHashMap<>();
        subtopologies.forEach(one -> byId.put(one.get(0).asText(), one));
        return new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return new ArrayList<>(byId.keySet());
            }

            @Override
            public int maxNumInputPartitions(String subtopology) {
                return byId.get(subtopology).get(1).asInt();
            }

            @Override
            public boolean isStateful(String subtopology) {
                return byId.get(subtopology).get(2).asBoolean();
            }
        };
    }
}
