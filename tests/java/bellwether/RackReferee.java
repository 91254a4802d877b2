package bellwether;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Kafka's rack-aware optimiser as a referee. Reads one problem per line as JSON and prints one answer per line.
 *
 * Problem: kind (active, standby), strategy, traffic, non_overlap, processes (their racks, in order), tasks
 * [[subtopology, partition]], sources and changelogs (per task, per partition the racks of its replicas), active
 * (process per task, -1 none), standbys (processes per task), chosen (the active tasks to optimise), spread (standbys
 * of a task must not end in fewer racks). Answer: cost, active or standbys, nanos; or error.
 */
public final class RackReferee {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final List<TaskId> tasks = new ArrayList<>();
    private final List<String> rackOf = new ArrayList<>();
    private final SortedMap<ProcessId, ClientState> clients = new TreeMap<>();
    private final List<ClientState> inOrder = new ArrayList<>();
    private final RackAwareTaskAssignor assignor;
    private final JsonNode problem;

    RackReferee(JsonNode problem) throws ReflectiveOperationException {
        this.problem = problem;
        Map<Subtopology, Set<TaskId>> groups = new HashMap<>();
        for (JsonNode task : problem.get("tasks")) {
            TaskId id = new TaskId(task.get(0).asInt(), task.get(1).asInt());
            tasks.add(id);
            groups.computeIfAbsent(new Subtopology(id.subtopology(), null), none -> new HashSet<>()).add(id);
        }
        Map<ProcessId, Map<String, Optional<String>>> racks = new HashMap<>();
        for (JsonNode rack : problem.get("processes")) {
            ProcessId id = new ProcessId(new UUID(0, rackOf.size() + 1));
            ClientState client = new ClientState(Set.of(), Set.of(), Map.of(), Map.of(), 1, id);
            rackOf.add(rack.asText());
            clients.put(id, client);
            inOrder.add(client);
            racks.put(id, Map.of("consumer", Optional.of(rack.asText())));
        }
        Replicas sources = new Replicas("source", problem.get("sources"), tasks);
        Replicas changelogs = new Replicas("changelog", problem.get("changelogs"), tasks);
        for (int task = 0; task < tasks.size(); task++) {
            int owner = problem.get("active").get(task).asInt();
            if (owner >= 0) {
                inOrder.get(owner).assignActive(tasks.get(task));
            }
            for (JsonNode holder : problem.get("standbys").get(task)) {
                inOrder.get(holder.asInt()).assignStandby(tasks.get(task));
            }
        }
        AssignmentConfigs configs = new AssignmentConfigs(
            100L, 2, 0, 60_000L, List.of(), OptionalInt.empty(), OptionalInt.empty(), problem.get("strategy").asText());
        assignor = new RackAwareTaskAssignor(
            sources.cluster(), sources.ofTask, changelogs.ofTask, groups, racks, null, configs, Time.SYSTEM);
        if (!assignor.canEnableRackAwareAssignor()) {
            throw new IllegalArgumentException("racks are not complete");
        }
        describe(changelogs);
    }

    /** Tells the assignor of the racks of changelogs, which it would ask an admin client for. */
    private void describe(Replicas changelogs) throws ReflectiveOperationException {
        Field field = RackAwareTaskAssignor.class.getDeclaredField("racksForPartition");
        field.setAccessible(true);
        @SuppressWarnings("unchecked")
        Map<TopicPartition, Set<String>> known = (Map<TopicPartition, Set<String>>) field.get(assignor);
        known.putAll(changelogs.racks);
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
        try {
            RackReferee referee = new RackReferee(problem);
            long started = System.nanoTime();
            long cost = referee.run();
            answer.put("nanos", System.nanoTime() - started).put("cost", cost);
            referee.write(answer);
        } catch (RuntimeException | ReflectiveOperationException failed) {
            answer.put("error", failed.toString());
        }
        return answer;
    }

    /** Optimises once; the cost that Kafka states. */
    long run() {
        int traffic = problem.get("traffic").asInt();
        int nonOverlap = problem.get("non_overlap").asInt();
        if (problem.get("kind").asText().equals("standby")) {
            boolean spread = problem.get("spread").asBoolean();
            return assignor.optimizeStandbyTasks(clients, traffic, nonOverlap,
                (source, destination, task, all) -> !spread || !narrows(source, destination, task));
        }
        TreeSet<TaskId> chosen = new TreeSet<>();
        problem.get("chosen").forEach(task -> chosen.add(tasks.get(task.asInt())));
        return assignor.optimizeActiveTasks(chosen, clients, traffic, nonOverlap);
    }

    /** Whether a move would leave the copies of a task in fewer racks. */
    private boolean narrows(ClientState source, ClientState destination, TaskId task) {
        Set<String> before = new HashSet<>();
        Set<String> after = new HashSet<>();
        for (int process = 0; process < inOrder.size(); process++) {
            ClientState client = inOrder.get(process);
            if (client == source) {
                before.add(rackOf.get(process));
            } else if (client == destination) {
                after.add(rackOf.get(process));
            } else if (client.activeTasks().contains(task) || client.standbyTasks().contains(task)) {
                before.add(rackOf.get(process));
                after.add(rackOf.get(process));
            }
        }
        return after.size() < before.size();
    }

    private void write(ObjectNode answer) {
        ArrayNode active = answer.putArray("active");
        ArrayNode standbys = answer.putArray("standbys");
        for (TaskId task : tasks) {
            int owner = -1;
            ArrayNode holders = standbys.addArray();
            for (int process = 0; process < inOrder.size(); process++) {
                if (inOrder.get(process).activeTasks().contains(task)) {
                    owner = process;
                }
                if (inOrder.get(process).standbyTasks().contains(task)) {
                    holders.add(process);
                }
            }
            active.add(owner);
        }
    }

    /** Partitions per task and the racks of their replicas. */
    private static final class Replicas {
        final Map<TaskId, Set<TopicPartition>> ofTask = new HashMap<>();
        final Map<TopicPartition, Set<String>> racks = new LinkedHashMap<>();

        Replicas(String prefix, JsonNode perTask, List<TaskId> tasks) {
            for (int task = 0; task < tasks.size(); task++) {
                Set<TopicPartition> mine = new HashSet<>();
                for (JsonNode partition : perTask.get(task)) {
                    TopicPartition named = new TopicPartition(prefix + mine.size() + "-" + task, 0);
                    Set<String> of = new HashSet<>();
                    partition.forEach(rack -> of.add(rack.asText()));
                    mine.add(named);
                    racks.put(named, of);
                }
                ofTask.put(tasks.get(task), mine);
            }
        }

        Cluster cluster() {
            Map<String, Node> nodes = new HashMap<>();
            List<PartitionInfo> partitions = new ArrayList<>();
            racks.forEach((partition, of) -> {
                Node[] replicas = of.stream()
                    .map(rack -> nodes.computeIfAbsent(rack, name -> new Node(nodes.size(), name, 1, name)))
                    .toArray(Node[]::new);
                partitions.add(
                    new PartitionInfo(partition.topic(), partition.partition(), replicas[0], replicas, replicas));
            });
            return new Cluster("referee", nodes.values(), partitions, Set.of(), Set.of());
        }
    }
}
