package bellwether;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.LegacyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Assignors of tasks: processes with what they had and their lags go to Python, and what comes back is assigned. Kafka's
 * own assignor answers the same question beside it, and both plans are compared. It asks the optimiser of racks as often as
 * tests expect; what that changes is on copies.
 */
public final class Tasks {
    private static final ThreadLocal<Boolean> KAFKA = ThreadLocal.withInitial(() -> false);
    private static final int TRAFFIC = 10;
    private static final int NON_OVERLAP = 1;

    private Tasks() {}

    /** 0 where Kafka's own method is to run, else 1 for false and 2 for true. */
    @SuppressWarnings("unchecked")
    public static int assign(Object assignor, Map<?, ?> of, Set<?> all, Set<?> stateful, Object racks, Object with) {
        if (KAFKA.get()) {
            return 0;
        }
        Map<ProcessId, ClientState> clients = new TreeMap<>((Map<ProcessId, ClientState>) of);
        List<TaskId> tasks = new ArrayList<>(new TreeSet<>((Set<TaskId>) all));
        AssignmentConfigs configs = (AssignmentConfigs) with;
        RackAwareTaskAssignor optimiser = (RackAwareTaskAssignor) racks;
        boolean racked = !assignor.getClass().getSimpleName().startsWith("Fallback")
            && optimiser.canEnableRackAwareAssignor();
        Map<ProcessId, ClientState> copies = new TreeMap<>();
        clients.forEach((id, client) -> copies.put(id, new ClientState(client)));
        ObjectNode question = question(clients, tasks, stateful, configs);
        question.put("assignor", assignor.getClass().getSimpleName())
            .put("preserve", preserves(assignor))
            .put("racked", racked);
        if (racked) {
            var own = (AssignmentConfigs) field(optimiser, "assignmentConfigs"); // its strategy counts, not the other one's
            question.put("strategy", own.rackAwareAssignmentStrategy());
            racks(question, optimiser, clients.keySet(), tasks);
        }
        JsonNode answer = Ask.ask("tasks", question);
        int row = 0;
        for (ClientState client : clients.values()) {
            answer.get("active").get(row).forEach(task -> client.assignActive(tasks.get(task.asInt())));
            answer.get("standby").get(row++).forEach(task -> client.assignStandby(tasks.get(task.asInt())));
        }
        compare(assignor, clients, copies, (Set<TaskId>) all, (Set<TaskId>) stateful, optimiser, configs, racked);
        return answer.get("probing").asBoolean() ? 2 : 1;
    }

    private static boolean preserves(Object assignor) {
        return assignor.getClass().getSimpleName().startsWith("LegacySticky")
            && (boolean) field(assignor, "mustPreserveActiveTaskAssignment");
    }

    private static ObjectNode question(
        Map<ProcessId, ClientState> clients, List<TaskId> tasks, Set<?> stateful, AssignmentConfigs configs) {
        ObjectNode question = Ask.JSON.createObjectNode();
        ArrayNode all = question.putArray("tasks");
        tasks.forEach(t -> all.addArray().add(t.subtopology()).add(t.partition()).add(stateful.contains(t)));
        ArrayNode processes = question.putArray("processes");
        clients.forEach((id, client) -> {
            ObjectNode process = processes.addObject()
                .put("high", id.id().getMostSignificantBits())
                .put("low", id.id().getLeastSignificantBits())
                .put("capacity", client.capacity());
            ObjectNode tags = process.putObject("tags");
            client.clientTags().forEach(tags::put);
            named(process.putArray("active"), previous(client, "prevActiveTasks"), tasks);
            named(process.putArray("standby"), previous(client, "prevStandbyTasks"), tasks);
            ArrayNode lags = process.putArray("lags");
            client.taskLagTotals().forEach((task, lag) -> {
                if (tasks.contains(task)) {
                    lags.addArray().add(tasks.indexOf(task)).add(lag);
                }
            });
        });
        question.put("acceptable_lag", configs.acceptableRecoveryLag())
            .put("warmups", configs.maxWarmupReplicas())
            .put("standbys", configs.numStandbyReplicas())
            .put("strategy", configs.rackAwareAssignmentStrategy());
        configs.rackAwareTrafficCost().ifPresent(cost -> question.put("traffic", cost));
        configs.rackAwareNonOverlapCost().ifPresent(cost -> question.put("non_overlap", cost));
        ArrayNode tags = question.putArray("tags");
        configs.rackAwareAssignmentTags().forEach(tags::add);
        return question;
    }

    private static void named(ArrayNode row, Collection<TaskId> held, List<TaskId> tasks) {
        held.stream().filter(tasks::contains).sorted().forEach(task -> row.add(tasks.indexOf(task)));
    }

    @SuppressWarnings("unchecked")
    private static Set<TaskId> previous(ClientState client, String method) {
        try {
            Method read = ClientState.class.getDeclaredMethod(method);
            read.setAccessible(true);
            return (Set<TaskId>) read.invoke(client);
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
    }

    @SuppressWarnings("unchecked")
    private static void racks(
        ObjectNode question, RackAwareTaskAssignor optimiser, Collection<ProcessId> processes, List<TaskId> tasks) {
        Map<TopicPartition, Set<String>> held = optimiser.racksForPartition();
        String[] kinds = {"partitionsForTask", "changelogPartitionsForTask"};
        for (String kind : kinds) {
            var partitions = (Map<TaskId, Set<TopicPartition>>) field(optimiser, kind);
            ArrayNode rows = question.putArray(kind);
            for (TaskId task : tasks) {
                ArrayNode row = rows.addArray();
                for (TopicPartition partition : partitions.getOrDefault(task, Set.of())) {
                    ArrayNode racks = row.addArray();
                    held.getOrDefault(partition, Set.of()).forEach(racks::add);
                }
            }
        }
        ArrayNode places = question.putArray("racks");
        processes.forEach(process -> places.add(optimiser.racksForProcess().get(process)));
    }

    private static Object field(Object of, String name) {
        for (Class<?> type = of.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(of);
            } catch (NoSuchFieldException above) {
                continue;
            } catch (IllegalAccessException closed) {
                throw new IllegalStateException(closed);
            }
        }
        throw new IllegalStateException(name);
    }

    private static void compare(
        Object assignor,
        Map<ProcessId, ClientState> ours,
        Map<ProcessId, ClientState> theirs,
        Set<TaskId> all,
        Set<TaskId> stateful,
        RackAwareTaskAssignor optimiser,
        AssignmentConfigs configs,
        boolean racked) {
        KAFKA.set(true);
        try {
            Class<?>[] types = preserves(assignor) ? new Class<?>[] {boolean.class} : new Class<?>[0];
            var made = assignor.getClass().getDeclaredConstructor(types);
            made.setAccessible(true);
            var fresh = (LegacyTaskAssignor) (preserves(assignor) ? made.newInstance(true) : made.newInstance());
            fresh.assign(theirs, new HashSet<>(all), new HashSet<>(stateful), optimiser, configs);
        } catch (ReflectiveOperationException | RuntimeException failed) {
            return;
        } finally {
            KAFKA.set(false);
        }
        boolean same = ours.keySet().stream().allMatch(p -> ours.get(p).activeTasks().equals(theirs.get(p).activeTasks())
            && ours.get(p).standbyTasks().equals(theirs.get(p).standbyTasks()));
        long cost = racked && !same ? cost(optimiser, ours, all) - cost(optimiser, theirs, all) : 0;
        String worse = "";
        if (!same && spread(ours) > spread(theirs) + 1e-9) {
            worse = "loads " + spread(ours) + " > " + spread(theirs);
        } else if (cost > 0) {
            worse = "cost of racks higher by " + cost;
        } else if (!same && cost == 0 && spread(ours) > spread(theirs) - 1e-9 && kept(ours) < kept(theirs)) {
            worse = "kept " + kept(ours) + " < " + kept(theirs);
        }
        Ask.compared(assignor, same, worse);
    }

    private static long cost(RackAwareTaskAssignor optimiser, Map<ProcessId, ClientState> clients, Set<TaskId> tasks) {
        try {
            Method read = RackAwareTaskAssignor.class.getDeclaredMethod(
                "activeTasksCost", SortedSet.class, SortedMap.class, int.class, int.class);
            read.setAccessible(true);
            return (long) read.invoke(optimiser, new TreeSet<>(tasks), new TreeMap<>(clients), TRAFFIC, NON_OVERLAP);
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
    }

    private static double spread(Map<ProcessId, ClientState> clients) {
        return clients.values().stream()
            .mapToDouble(c -> Math.pow((double) c.assignedTaskCount() / c.capacity(), 2) * c.capacity())
            .sum();
    }

    /** The active tasks that stay where a copy was, those that ran there twice. */
    private static long kept(Map<ProcessId, ClientState> clients) {
        return clients.values().stream()
            .mapToLong(c -> 2 * common(c.activeTasks(), previous(c, "prevActiveTasks"))
                + common(c.activeTasks(), previous(c, "prevStandbyTasks")))
            .sum();
    }

    private static long common(Set<TaskId> one, Set<TaskId> other) {
        return one.stream().filter(other::contains).count();
    }

    /** Woven around assign. */
    public static final class Assign {
        private Assign() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static int enter(
            @Advice.This Object assignor,
            @Advice.Argument(0) Map<?, ?> clients,
            @Advice.Argument(1) Set<?> all,
            @Advice.Argument(2) Set<?> stateful,
            @Advice.Argument(3) Object racks,
            @Advice.Argument(4) Object configs) {
            return Tasks.assign(assignor, clients, all, stateful, racks, configs);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter int answer, @Advice.Return(readOnly = false) boolean returned) {
            if (answer > 0) {
                returned = answer == 2;
            }
        }
    }
}
