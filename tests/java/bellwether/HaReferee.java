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
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.FallbackPriorTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Kafka's own task assignors as a referee. Reads one problem per line as JSON and prints one answer per line.
 *
 * Problem: assignor (ha, sticky, fallback), tasks [[subtopology, partition, stateful]], processes [{id, capacity, tags,
 * active, standby, lags}] with tasks as indices and one lag per stateful task, in order; acceptable_lag, warmups,
 * standbys, tags. Answer: active and standby as task indices per process, probing, nanos; or error.
 */
public final class HaReferee {
    private static final ObjectMapper JSON = new ObjectMapper();

    private HaReferee() {
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            out.flush();
        }
    }

    private static ObjectNode answer(JsonNode problem) {
        ObjectNode answer = JSON.createObjectNode();
        List<TaskId> tasks = new ArrayList<>();
        Map<TaskId, Integer> index = new HashMap<>();
        Set<TaskId> stateful = new HashSet<>();
        List<TaskId> statefulInOrder = new ArrayList<>();
        for (JsonNode task : problem.get("tasks")) {
            TaskId id = new TaskId(task.get(0).asInt(), task.get(1).asInt());
            index.put(id, tasks.size());
            tasks.add(id);
            if (task.get(2).asBoolean()) {
                stateful.add(id);
                statefulInOrder.add(id);
            }
        }
        AssignmentConfigs configs = configs(problem);
        Map<ProcessId, ClientState> clients = new TreeMap<>();
        List<ClientState> inOrder = new ArrayList<>();
        for (JsonNode process : problem.get("processes")) {
            ProcessId id = new ProcessId(UUID.fromString(process.get("id").asText()));
            ClientState client = client(process, id, tasks, statefulInOrder);
            clients.put(id, client);
            inOrder.add(client);
        }
        LegacyTaskAssignor assignor = assignor(problem.get("assignor").asText());
        try {
            long started = System.nanoTime();
            boolean probing = assignor.assign(clients, new HashSet<>(tasks), stateful, noRacks(configs), configs);
            answer.put("nanos", System.nanoTime() - started);
            answer.put("probing", probing);
        } catch (RuntimeException failed) {
            return answer.put("error", failed.toString());
        }
        ArrayNode active = answer.putArray("active");
        ArrayNode standby = answer.putArray("standby");
        for (ClientState client : inOrder) {
            write(active.addArray(), client.activeTasks(), index);
            write(standby.addArray(), client.standbyTasks(), index);
        }
        return answer;
    }

    private static LegacyTaskAssignor assignor(String name) {
        switch (name) {
            case "ha":
                return new HighAvailabilityTaskAssignor();
            case "sticky":
                return new LegacyStickyTaskAssignor();
            case "fallback":
                return new FallbackPriorTaskAssignor();
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private static AssignmentConfigs configs(JsonNode problem) {
        List<String> tags = new ArrayList<>();
        problem.get("tags").forEach(tag -> tags.add(tag.asText()));
        return new AssignmentConfigs(
            problem.get("acceptable_lag").asLong(),
            problem.get("warmups").asInt(),
            problem.get("standbys").asInt(),
            60_000L,
            tags
        );
    }

    private static ClientState client(JsonNode process, ProcessId id, List<TaskId> tasks, List<TaskId> stateful) {
        Map<TaskId, Long> lags = new HashMap<>();
        for (int i = 0; i < stateful.size(); i++) {
            lags.put(stateful.get(i), process.get("lags").get(i).asLong());
        }
        Map<String, String> tags = new HashMap<>();
        process.get("tags").properties().forEach(tag -> tags.put(tag.getKey(), tag.getValue().asText()));
        int capacity = process.get("capacity").asInt();
        return new ClientState(
            named(process.get("active"), tasks), named(process.get("standby"), tasks), lags, tags, capacity, id);
    }

    private static Set<TaskId> named(JsonNode indices, List<TaskId> tasks) {
        Set<TaskId> named = new HashSet<>();
        indices.forEach(task -> named.add(tasks.get(task.asInt())));
        return named;
    }

    private static void write(ArrayNode row, Set<TaskId> tasks, Map<TaskId, Integer> index) {
        tasks.stream().sorted().forEach(task -> row.add(index.get(task)));
    }

    /** A rack-aware assignor that finds no racks, and so never changes anything. */
    private static RackAwareTaskAssignor noRacks(AssignmentConfigs configs) {
        return new RackAwareTaskAssignor(
            Cluster.empty(), Map.of(), Map.of(), Map.of(), Map.of(), null, configs, Time.SYSTEM);
    }
}
