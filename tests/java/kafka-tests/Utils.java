package bellwether;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.UUID;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils.RackAwareOptimizationParams;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.AssignmentError;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.TaskAssignment;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;

/** The task assignor API of KIP-924: its utilities, and the assignor that comes with it. */
@SuppressWarnings("unchecked")
public final class Utils {
    private Utils() {}

    /** Null where Kafka's own assignor is to run. */
    public static TaskAssignment sticky(Object assignor, ApplicationState state) {
        if (Ask.isKafkas() || (boolean) field(assignor, "mustPreserveActiveTaskAssignment")) {
            return null;
        }
        TaskAssignment theirs = Ask.kafkas(
            (long) state.allTasks().size() * state.kafkaStreamsStates(false).size(),
            () -> new org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor().assign(state));
        TaskAssignment ours = new TaskAssignment(assignments(Ask.ask("sticky", question(state))).values());
        if (theirs != null) {
            Report.compared(
                tasks(ours.assignment()).equals(tasks(theirs.assignment())),
                measures(state, ours.assignment()),
                measures(state, theirs.assignment()));
        }
        return ours;
    }

    private static Map<ProcessId, Map<TaskId, AssignedTask>> tasks(Collection<KafkaStreamsAssignment> plan) {
        Map<ProcessId, Map<TaskId, AssignedTask>> tasks = new HashMap<>();
        plan.forEach(one -> tasks.put(one.processId(), one.tasks()));
        return tasks;
    }

    private static ObjectNode measures(ApplicationState state, Collection<KafkaStreamsAssignment> plan) {
        double loads = 0;
        long moves = 0;
        long copies = 0;
        for (KafkaStreamsAssignment one : plan) {
            KafkaStreamsState had = state.kafkaStreamsStates(false).get(one.processId());
            loads += Math.pow(one.tasks().size(), 2) / had.numProcessingThreads();
            copies += one.tasks().size();
            moves += had.previousActiveTasks().stream()
                .filter(task -> !one.tasks().containsKey(task) || one.tasks().get(task).type() != AssignedTask.Type.ACTIVE)
                .count();
        }
        return Ask.JSON.createObjectNode().put("missing", -copies).put("loads", loads).put("moves", moves);
    }

    /** False where Kafka's own method is to run. */
    public static boolean standbys(ApplicationState state, Map<?, ?> plan) {
        if (Ask.isKafkas()) {
            return false;
        }
        ObjectNode question = question(state);
        plan(question, (Collection<KafkaStreamsAssignment>) plan.values());
        return replace((Map<ProcessId, KafkaStreamsAssignment>) plan, Ask.ask("api_standbys", question));
    }

    public static boolean racks(String about, Object params, Map<?, ?> plan) {
        if (Ask.isKafkas()) {
            return false;
        }
        ObjectNode question = question((ApplicationState) field(params, "applicationState"));
        ((Optional<Integer>) field(params, "trafficCostOverride")).ifPresent(cost -> question.put("traffic_override", cost));
        ((Optional<Integer>) field(params, "nonOverlapCostOverride")).ifPresent(cost -> question.put("stay_override", cost));
        ((Optional<SortedSet<TaskId>>) field(params, "tasksToOptimize")).ifPresent(chosen -> {
            ArrayNode tasks = question.putArray("chosen");
            chosen.forEach(task -> tasks.addArray().add(task.subtopology()).add(task.partition()));
        });
        plan(question, (Collection<KafkaStreamsAssignment>) plan.values());
        return replace((Map<ProcessId, KafkaStreamsAssignment>) plan, Ask.ask(about, question));
    }

    public static Map<ProcessId, KafkaStreamsAssignment> identity(ApplicationState state) {
        return Ask.isKafkas() ? null : assignments(Ask.ask("identity", question(state)));
    }

    public static AssignmentError error(ApplicationState state, TaskAssignment assignment) {
        if (Ask.isKafkas()) {
            return null;
        }
        ObjectNode question = question(state);
        plan(question, assignment.assignment());
        return AssignmentError.valueOf(Ask.ask("validate", question).get("found").asText());
    }

    private static ObjectNode question(ApplicationState state) {
        ObjectNode question = Ask.JSON.createObjectNode();
        ArrayNode tasks = question.putArray("tasks");
        ArrayNode sources = question.putArray("partitionsForTask");
        ArrayNode changelogs = question.putArray("changelogPartitionsForTask");
        List<TaskId> order = new ArrayList<>();
        new TreeMap<>(state.allTasks()).forEach((id, task) -> {
            order.add(id);
            boolean stateful = task.topicPartitions().stream().anyMatch(TaskTopicPartition::isChangelog); // what we call so
            tasks.addArray().add(id.subtopology()).add(id.partition()).add(stateful);
            ArrayNode read = sources.addArray();
            ArrayNode kept = changelogs.addArray();
            for (TaskTopicPartition partition : task.topicPartitions()) {
                for (ArrayNode row : List.of(read, kept)) {
                    if (row == read ? partition.isSource() : partition.isChangelog()) {
                        ArrayNode racks = row.addArray();
                        partition.rackIds().ifPresent(held -> held.forEach(racks::add));
                    }
                }
            }
        });
        ArrayNode processes = question.putArray("processes");
        ArrayNode places = question.putArray("racks");
        new TreeMap<>(state.kafkaStreamsStates(false)).forEach((id, process) -> {
            ObjectNode one = processes.addObject()
                .put("high", id.id().getMostSignificantBits())
                .put("low", id.id().getLeastSignificantBits())
                .put("capacity", process.numProcessingThreads());
            ObjectNode tags = one.putObject("tags");
            process.clientTags().forEach(tags::put);
            one.putArray("lags");
            ArrayNode active = one.putArray("active");
            process.previousActiveTasks().forEach(task -> active.add(order.indexOf(task)));
            ArrayNode standby = one.putArray("standby");
            process.previousStandbyTasks().forEach(task -> standby.add(order.indexOf(task)));
            places.add(process.rackId().orElse(null));
        });
        AssignmentConfigs configs = state.assignmentConfigs();
        question.put("acceptable_lag", configs.acceptableRecoveryLag())
            .put("warmups", configs.maxWarmupReplicas())
            .put("standbys", configs.numStandbyReplicas())
            .put("strategy", configs.rackAwareAssignmentStrategy())
            .put("racked", true);
        configs.rackAwareTrafficCost().ifPresent(cost -> question.put("traffic", cost));
        configs.rackAwareNonOverlapCost().ifPresent(cost -> question.put("non_overlap", cost));
        ArrayNode keys = question.putArray("tags");
        configs.rackAwareAssignmentTags().forEach(keys::add);
        return question;
    }

    private static void plan(ObjectNode question, Collection<KafkaStreamsAssignment> plan) {
        ArrayNode all = question.putArray("plan");
        plan.forEach(one -> {
            ObjectNode process = all.addObject()
                .put("high", one.processId().id().getMostSignificantBits())
                .put("low", one.processId().id().getLeastSignificantBits());
            ArrayNode tasks = process.putArray("tasks");
            one.tasks().values().forEach(task -> tasks.addArray()
                .add(task.id().subtopology()).add(task.id().partition()).add(task.type().name()));
        });
    }

    private static Map<ProcessId, KafkaStreamsAssignment> assignments(JsonNode answer) {
        Map<ProcessId, KafkaStreamsAssignment> plan = new HashMap<>();
        answer.get("plan").forEach(one -> {
            ProcessId id = new ProcessId(new UUID(one.get("high").asLong(), one.get("low").asLong()));
            Set<AssignedTask> tasks = new HashSet<>();
            one.get("tasks").forEach(task -> tasks.add(new AssignedTask(
                new TaskId(task.get(0).asInt(), task.get(1).asInt()), AssignedTask.Type.valueOf(task.get(2).asText()))));
            plan.put(id, KafkaStreamsAssignment.of(id, tasks));
        });
        return plan;
    }

    private static boolean replace(Map<ProcessId, KafkaStreamsAssignment> plan, JsonNode answer) {
        assignments(answer).forEach((process, after) -> {
            KafkaStreamsAssignment one = plan.computeIfAbsent(process, p -> KafkaStreamsAssignment.of(p, Set.of()));
            List.copyOf(one.tasks().values()).forEach(one::removeTask);
            after.tasks().values().forEach(one::assignTask);
        });
        return true;
    }

    private static Object field(Object of, String name) {
        try {
            Field field = of.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return field.get(of);
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
    }

    /** Woven around assign of the assignor. */
    public static final class Sticky {
        private Sticky() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static TaskAssignment enter(@Advice.This Object assignor, @Advice.Argument(0) ApplicationState state) {
            return Utils.sticky(assignor, state);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter TaskAssignment answer, @Advice.Return(readOnly = false) TaskAssignment returned) {
            if (answer != null) {
                returned = answer;
            }
        }
    }

    /** Woven around identityAssignment. */
    public static final class Identity {
        private Identity() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Map<?, ?> enter(@Advice.Argument(0) ApplicationState state) {
            return Utils.identity(state);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Map<?, ?> answer, @Advice.Return(readOnly = false) Map<?, ?> returned) {
            if (answer != null) {
                returned = answer;
            }
        }
    }

    /** Woven around defaultStandbyTaskAssignment. */
    public static final class Standbys {
        private Standbys() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(@Advice.Argument(0) ApplicationState state, @Advice.Argument(1) Map<?, ?> plan) {
            return Utils.standbys(state, plan);
        }
    }

    /** Woven around optimizeRackAwareActiveTasks. */
    public static final class RackActives {
        private RackActives() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(
            @Advice.Argument(0) RackAwareOptimizationParams params, @Advice.Argument(1) Map<?, ?> plan) {
            return Utils.racks("api_rack_actives", params, plan);
        }
    }

    /** Woven around optimizeRackAwareStandbyTasks. */
    public static final class RackStandbys {
        private RackStandbys() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(
            @Advice.Argument(0) RackAwareOptimizationParams params, @Advice.Argument(1) Map<?, ?> plan) {
            return Utils.racks("api_rack_standbys", params, plan);
        }
    }

    /** Woven around validateTaskAssignment. */
    public static final class Validate {
        private Validate() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static AssignmentError enter(
            @Advice.Argument(0) ApplicationState state, @Advice.Argument(1) TaskAssignment assignment) {
            return Utils.error(state, assignment);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter AssignmentError answer, @Advice.Return(readOnly = false) AssignmentError returned) {
            if (answer != null) {
                returned = answer;
            }
        }
    }
}
