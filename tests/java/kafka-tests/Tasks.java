package org.apache.kafka.streams.processor.internals.assignment;

import bellwether.Ask;
import bellwether.Report;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;

/**
 * Assignors of tasks: processes with what they had and their lags go to Python, and what comes back is assigned. Kafka's
 * own assignor answers the same question beside it, and both plans are compared. It asks the optimiser of racks as often as
 * tests expect; what that changes is on copies.
 */
public final class Tasks {
    private static final int TRAFFIC = 10;
    private static final int NON_OVERLAP = 1;

    private Tasks() {}

    /** 0 where Kafka's own method is to run, else 1 for false and 2 for true. */
    @SuppressWarnings("unchecked")
    public static int assign(Object assignor, Map<?, ?> of, Set<?> all, Set<?> stateful, Object racks, Object with) {
        if (Ask.isKafkas()) {
            return 0;
        }
        Map<ProcessId, ClientState> clients = new TreeMap<>((Map<ProcessId, ClientState>) of);
        RackAwareTaskAssignor optimiser = (RackAwareTaskAssignor) racks;
        boolean racked = !assignor.getClass().getSimpleName().startsWith("Fallback")
            && optimiser.canEnableRackAwareAssignor();
        Round round = new Round(
            assignor, (Set<TaskId>) all, (Set<TaskId>) stateful, optimiser, racked, (AssignmentConfigs) with);
        Map<ProcessId, ClientState> copies = States.copy(clients);
        JsonNode answer = round.ours(clients);
        if (round.kafkas(copies)) {
            compare(round, clients, copies);
        }
        return answer.get("probing").asBoolean() ? 2 : 1;
    }

    /** Where a test is listed as one whose plans are worth as much later, also what both plans come to. */
    private static void compare(Round round, Map<ProcessId, ClientState> ours, Map<ProcessId, ClientState> theirs) {
        ObjectNode mine = round.measures(ours);
        ObjectNode kafkas = round.measures(theirs);
        if (Report.looksAhead()) {
            mine.set(Report.AT_REST, round.measures(Rest.of(ours, clients -> round.ours(clients) != null)));
            kafkas.set(Report.AT_REST, round.measures(Rest.of(theirs, round::kafkas)));
        }
        Report.compared(States.same(ours, theirs), mine, kafkas);
    }

    /** One question of a test. `racked`: racks count in it. */
    private record Round(
        Object assignor,
        Set<TaskId> all,
        Set<TaskId> stateful,
        RackAwareTaskAssignor optimiser,
        boolean racked,
        AssignmentConfigs configs) {

        /** Lets Python place the tasks. */
        JsonNode ours(Map<ProcessId, ClientState> clients) {
            List<TaskId> tasks = new ArrayList<>(new TreeSet<>(all));
            ObjectNode question = States.question(clients, tasks, stateful);
            configure(question, configs);
            question.put("assignor", assignor.getClass().getSimpleName())
                .put("preserve", preserves(assignor))
                .put("racked", racked);
            if (racked) {
                var own = (AssignmentConfigs) States.field(optimiser, "assignmentConfigs"); // its strategy counts
                question.put("strategy", own.rackAwareAssignmentStrategy());
                States.racks(question, optimiser, clients.keySet(), tasks);
            }
            JsonNode answer = Ask.ask("tasks", question);
            States.apply(answer, clients, tasks);
            return answer;
        }

        /** Lets Kafka's own assignor place the tasks; false where it fails. */
        boolean kafkas(Map<ProcessId, ClientState> clients) {
            Boolean placed = Ask.kafkas(0, () -> { // tests of any size look at how often it asks for racks
                try {
                    Class<?>[] types = preserves(assignor) ? new Class<?>[] {boolean.class} : new Class<?>[0];
                    var made = assignor.getClass().getDeclaredConstructor(types);
                    made.setAccessible(true);
                    var fresh = (LegacyTaskAssignor) (preserves(assignor) ? made.newInstance(true) : made.newInstance());
                    fresh.assign(clients, new HashSet<>(all), new HashSet<>(stateful), optimiser, configs);
                    return true;
                } catch (ReflectiveOperationException failed) {
                    throw new IllegalStateException(failed);
                }
            });
            return placed != null && !Ask.isLarge((long) all.size() * clients.size());
        }

        ObjectNode measures(Rest.Reached rest) {
            return measures(rest.clients()).put("moves", rest.moves());
        }

        ObjectNode measures(Map<ProcessId, ClientState> clients) {
            ObjectNode measures = Ask.JSON.createObjectNode()
                .put("missing", States.missing(clients, all, stateful, configs.numStandbyReplicas()))
                .put("active loads", States.unevenness(clients, true));
            if (racked && assignor.getClass().getSimpleName().startsWith("HighAvailability")) {
                measures.put("shared racks", States.sharedRacks(clients, stateful, optimiser.racksForProcess()));
            }
            measures.put("loads", States.unevenness(clients, false));
            if (racked) {
                TreeMap<ProcessId, ClientState> sorted = new TreeMap<>(clients);
                TreeSet<TaskId> kept = new TreeSet<>();
                clients.values().forEach(client -> kept.addAll(client.standbyTasks()));
                measures.put("racks", optimiser.activeTasksCost(new TreeSet<>(all), sorted, TRAFFIC, NON_OVERLAP)
                    + (configs.numStandbyReplicas() == 0 ? 0 : optimiser.standByTasksCost(kept, sorted, TRAFFIC, NON_OVERLAP)));
            }
            return measures.put("moves", States.moved(clients));
        }
    }

    private static boolean preserves(Object assignor) {
        return assignor.getClass().getSimpleName().startsWith("LegacySticky")
            && (boolean) States.field(assignor, "mustPreserveActiveTaskAssignment");
    }

    private static void configure(ObjectNode question, AssignmentConfigs configs) {
        question.put("acceptable_lag", configs.acceptableRecoveryLag())
            .put("warmups", configs.maxWarmupReplicas())
            .put("standbys", configs.numStandbyReplicas())
            .put("strategy", configs.rackAwareAssignmentStrategy());
        configs.rackAwareTrafficCost().ifPresent(cost -> question.put("traffic", cost));
        configs.rackAwareNonOverlapCost().ifPresent(cost -> question.put("non_overlap", cost));
        ArrayNode keys = question.putArray("tags");
        configs.rackAwareAssignmentTags().forEach(keys::add);
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
