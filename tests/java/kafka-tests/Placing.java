package org.apache.kafka.streams.processor.internals.assignment;

import bellwether.Ask;
import bellwether.Report;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Function;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor.MoveStandbyTaskPredicate;

/**
 * The parts of Kafka's assignors that have tests of their own: racks, standbys by tags, movements. A question that our
 * types cannot express (a task that nobody runs, or two; a rack that is not known) is left to Kafka's own code.
 */
@SuppressWarnings("unchecked")
public final class Placing {
    private Placing() {}

    /** The cost afterwards, as Kafka counts it; null where Kafka's own method is to run. */
    public static Long actives(Object of, SortedSet<?> chosen, SortedMap<?, ?> states, int traffic, int stay) {
        var clients = (SortedMap<ProcessId, ClientState>) states;
        var tasks = (SortedSet<TaskId>) chosen;
        RackAwareTaskAssignor optimiser = (RackAwareTaskAssignor) of;
        if (Ask.isKafkas() || !known(optimiser, clients, tasks, "partitionsForTask") || !ownedOnce(clients, tasks)) {
            return null;
        }
        List<TaskId> all = States.tasks(clients, tasks);
        ObjectNode question = rackQuestion(optimiser, clients, all, traffic, stay);
        ArrayNode indices = question.putArray("chosen");
        tasks.forEach(task -> indices.add(all.indexOf(task)));
        SortedMap<ProcessId, ClientState> before = States.copy(clients);
        SortedMap<ProcessId, ClientState> theirs = States.copy(clients);
        Long least = Ask.kafkas(
            (long) tasks.size() * clients.size(), () -> optimiser.optimizeActiveTasks(tasks, theirs, traffic, stay));
        States.apply(Ask.ask("actives", question), clients, all);
        long moved = tasks.stream()
            .filter(task -> clients.keySet().stream().noneMatch(
                p -> clients.get(p).hasActiveTask(task) && before.get(p).hasActiveTask(task)))
            .count();
        long cost = optimiser.activeTasksCost(tasks, clients, traffic, 0) + moved * stay;
        if (least != null) {
            Report.compared(States.same(clients, theirs), cost(cost), cost(least));
        }
        return cost;
    }

    public static Long standbys(Object of, SortedMap<?, ?> states, int traffic, int stay, Object predicate) {
        var clients = (SortedMap<ProcessId, ClientState>) states;
        RackAwareTaskAssignor optimiser = (RackAwareTaskAssignor) of;
        SortedSet<TaskId> kept = new TreeSet<>();
        clients.values().forEach(client -> kept.addAll(client.standbyTasks()));
        if (Ask.isKafkas() || !known(optimiser, clients, kept, "changelogPartitionsForTask")) {
            return null;
        }
        List<TaskId> all = States.tasks(clients, kept);
        ObjectNode question = rackQuestion(optimiser, clients, all, traffic, stay);
        MoveStandbyTaskPredicate mayMove = (MoveStandbyTaskPredicate) predicate;
        ClientTagAwareStandbyTaskAssignor rule = rule(mayMove);
        if (rule != null) {
            labels(question, rule, clients);
        }
        SortedMap<ProcessId, ClientState> theirs = States.copy(clients);
        Long least = Ask.kafkas(
            (long) kept.size() * clients.size(), () -> optimiser.optimizeStandbyTasks(theirs, traffic, stay, mayMove));
        States.apply(Ask.ask("standbys", question), clients, all);
        long cost = optimiser.standByTasksCost(kept, clients, traffic, stay);
        if (least != null) {
            Report.compared(States.same(clients, theirs), cost(cost), cost(least));
        }
        return cost;
    }

    private static ObjectNode cost(long cost) {
        return Ask.JSON.createObjectNode().put("racks", cost);
    }

    /** The assignor whose rule a predicate is; null where it allows everything, of which all present moves are proof. */
    private static ClientTagAwareStandbyTaskAssignor rule(MoveStandbyTaskPredicate predicate) {
        for (Field captured : predicate.getClass().getDeclaredFields()) {
            try {
                captured.setAccessible(true);
                if (captured.get(predicate) instanceof ClientTagAwareStandbyTaskAssignor) {
                    return (ClientTagAwareStandbyTaskAssignor) captured.get(predicate);
                }
            } catch (IllegalAccessException closed) {
                throw new IllegalStateException(closed);
            }
        }
        if (!predicate.canMove(null, null, null, null)) {
            throw new IllegalStateException("no rule that we know");
        }
        return null;
    }

    private static ObjectNode rackQuestion(
        RackAwareTaskAssignor optimiser, Map<ProcessId, ClientState> clients, List<TaskId> all, int traffic, int stay) {
        ObjectNode question = States.question(clients, all, new HashSet<>(all));
        var configs = (AssignmentConfigs) States.field(optimiser, "assignmentConfigs");
        States.racks(question.put("strategy", configs.rackAwareAssignmentStrategy()), optimiser, clients.keySet(), all);
        return question.put("racked", true).put("traffic", traffic).put("non_overlap", stay);
    }

    private static boolean known(
        RackAwareTaskAssignor optimiser, Map<ProcessId, ClientState> clients, Set<TaskId> tasks, String kind) {
        var partitions = (Map<TaskId, Set<TopicPartition>>) States.field(optimiser, kind);
        return optimiser.racksForProcess().keySet().containsAll(clients.keySet())
            && tasks.stream().allMatch(task -> !partitions.getOrDefault(task, Set.of()).isEmpty()
                && optimiser.racksForPartition().keySet().containsAll(partitions.get(task)));
    }

    private static boolean ownedOnce(Map<ProcessId, ClientState> clients, Set<TaskId> tasks) {
        return tasks.stream()
            .allMatch(task -> clients.values().stream().filter(client -> client.hasActiveTask(task)).count() == 1);
    }

    /** The labels by which a standby assignor tells processes apart: their tags, or their racks as a tag. */
    private static void labels(
        ObjectNode question, ClientTagAwareStandbyTaskAssignor assignor, Map<ProcessId, ClientState> clients) {
        var read = (BiFunction<ProcessId, ClientState, Map<String, String>>) States.field(assignor, "clientTagFunction");
        ArrayNode all = question.putArray("labels");
        clients.forEach((id, client) -> {
            ObjectNode labels = all.addObject();
            read.apply(id, client).forEach(labels::put);
        });
    }

    public static boolean spread(Object of, Map<?, ?> states, Set<?> stateful, Object with) {
        var clients = new TreeMap<>((Map<ProcessId, ClientState>) states);
        Set<TaskId> chosen = (Set<TaskId>) stateful;
        if (Ask.isKafkas() || !ownedOnce(clients, chosen)) {
            return false;
        }
        ClientTagAwareStandbyTaskAssignor assignor = (ClientTagAwareStandbyTaskAssignor) of;
        AssignmentConfigs configs = (AssignmentConfigs) with;
        List<TaskId> all = States.tasks(clients, chosen);
        ObjectNode question = States.question(clients, all, chosen);
        labels(question, assignor, clients);
        ArrayNode keys = question.put("standbys", configs.numStandbyReplicas()).putArray("keys");
        ((Function<AssignmentConfigs, List<String>>) States.field(assignor, "tagsFunction")).apply(configs).forEach(keys::add);
        ArrayNode order = question.putArray("chosen"); // the order of the set decides who gets the better places
        chosen.forEach(task -> order.add(all.indexOf(task)));
        States.apply(Ask.ask("spread", question), clients, all);
        return true;
    }

    /** 0 where Kafka's own method is to run, else 1 for false and 2 for true. Without a task: any that is kept there. */
    public static int movable(Object of, Object from, Object to, Object task, Map<?, ?> states) {
        if (Ask.isKafkas()) {
            return 0;
        }
        ClientState source = (ClientState) from;
        ClientState destination = (ClientState) to;
        Map<ProcessId, ClientState> clients = new TreeMap<>();
        if (states != null) {
            clients.putAll((Map<ProcessId, ClientState>) states);
        } else {
            clients.put(source.processId(), source);
            clients.put(destination.processId(), destination);
        }
        List<TaskId> all = States.tasks(clients, Set.of());
        ObjectNode question = States.question(clients, all, new HashSet<>(all));
        labels(question, (ClientTagAwareStandbyTaskAssignor) of, clients);
        List<ProcessId> order = new ArrayList<>(clients.keySet());
        question.put("source", order.indexOf(source.processId())).put("destination", order.indexOf(destination.processId()));
        if (task != null) {
            question.put("task", all.indexOf(task));
        }
        return Ask.ask("movable", question).get("allowed").asBoolean() ? 2 : 1;
    }

    /** How many tasks had to move; null where Kafka's own method is to run. Lags are those of the ClientStates. */
    public static Integer movements(
        String kind, Map<?, ?> caughtUp, Map<?, ?> byLag, Map<?, ?> states, Map<?, ?> warmups, AtomicInteger remaining) {
        var clients = new TreeMap<>((Map<ProcessId, ClientState>) states);
        if (Ask.isKafkas() || !follows(clients, (Map<TaskId, Set<ProcessId>>) caughtUp, (Map<TaskId, Set<ProcessId>>) byLag)) {
            return null;
        }
        var made = (Map<ProcessId, Set<TaskId>>) warmups;
        List<TaskId> all = States.tasks(clients, Set.of());
        ObjectNode question = States.question(clients, all, new HashSet<>(all)).put("kind", kind).put("left", remaining.get());
        ArrayNode rows = question.putArray("made");
        clients.keySet().forEach(process -> {
            ArrayNode row = rows.addArray();
            made.getOrDefault(process, Set.of()).forEach(task -> row.add(all.indexOf(task)));
        });
        JsonNode answer = Ask.ask("movements", question);
        States.apply(answer, clients, all);
        List<ProcessId> order = new ArrayList<>(clients.keySet());
        answer.get("warmups").forEach(one -> {
            made.computeIfAbsent(order.get(one.get(1).asInt()), p -> new TreeSet<>()).add(all.get(one.get(0).asInt()));
            remaining.decrementAndGet();
        });
        return answer.get("moved").asInt();
    }

    /** Whether the two orders are those that follow from the lags of the clients, of which none counts but 0. */
    private static boolean follows(
        Map<ProcessId, ClientState> clients, Map<TaskId, Set<ProcessId>> caughtUp, Map<TaskId, Set<ProcessId>> byLag) {
        return byLag.entrySet().stream().allMatch(one -> {
            Comparator<ProcessId> order = Comparator.comparingLong(p -> clients.get(p).lagFor(one.getKey()));
            List<ProcessId> sorted = new ArrayList<>(clients.keySet());
            sorted.sort(order.thenComparing(Comparator.naturalOrder()));
            Set<ProcessId> caught = new HashSet<>(sorted);
            caught.removeIf(p -> clients.get(p).lagFor(one.getKey()) > 0);
            return sorted.equals(new ArrayList<>(one.getValue())) && caught.equals(Set.copyOf(caughtUp.get(one.getKey())));
        });
    }

    /** Woven around optimizeActiveTasks. */
    public static final class Actives {
        private Actives() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Long enter(
            @Advice.This Object optimiser,
            @Advice.Argument(0) SortedSet<?> tasks,
            @Advice.Argument(1) SortedMap<?, ?> clients,
            @Advice.Argument(2) int traffic,
            @Advice.Argument(3) int stay) {
            return Placing.actives(optimiser, tasks, clients, traffic, stay);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Long answer, @Advice.Return(readOnly = false) long returned) {
            if (answer != null) {
                returned = answer;
            }
        }
    }

    /** Woven around optimizeStandbyTasks. */
    public static final class Standbys {
        private Standbys() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Long enter(
            @Advice.This Object optimiser,
            @Advice.Argument(0) SortedMap<?, ?> clients,
            @Advice.Argument(1) int traffic,
            @Advice.Argument(2) int stay,
            @Advice.Argument(3) Object predicate) {
            return Placing.standbys(optimiser, clients, traffic, stay, predicate);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Long answer, @Advice.Return(readOnly = false) long returned) {
            if (answer != null) {
                returned = answer;
            }
        }
    }

    /** Woven around assign of the assignor of standbys by tags, which always returns false. */
    public static final class Spread {
        private Spread() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(
            @Advice.This Object assignor,
            @Advice.Argument(0) Map<?, ?> clients,
            @Advice.Argument(2) Set<?> stateful,
            @Advice.Argument(3) Object configs) {
            return Placing.spread(assignor, clients, stateful, configs);
        }
    }

    /** Woven around isAllowedTaskMovement of two clients. */
    public static final class Movable {
        private Movable() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static int enter(
            @Advice.This Object assignor, @Advice.Argument(0) Object source, @Advice.Argument(1) Object destination) {
            return Placing.movable(assignor, source, destination, null, null);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter int answer, @Advice.Return(readOnly = false) boolean returned) {
            if (answer > 0) {
                returned = answer == 2;
            }
        }
    }

    /** Woven around isAllowedTaskMovement of one task. */
    public static final class TaskMovable {
        private TaskMovable() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static int enter(
            @Advice.This Object assignor,
            @Advice.Argument(0) Object source,
            @Advice.Argument(1) Object destination,
            @Advice.Argument(2) Object task,
            @Advice.Argument(3) Map<?, ?> clients) {
            return Placing.movable(assignor, source, destination, task, clients);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter int answer, @Advice.Return(readOnly = false) boolean returned) {
            if (answer > 0) {
                returned = answer == 2;
            }
        }
    }

    /** Woven around assignActiveTaskMovements. */
    public static final class ActiveMovements {
        private ActiveMovements() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Integer enter(
            @Advice.Argument(0) Map<?, ?> caughtUp,
            @Advice.Argument(1) Map<?, ?> byLag,
            @Advice.Argument(2) Map<?, ?> clients,
            @Advice.Argument(3) Map<?, ?> warmups,
            @Advice.Argument(4) AtomicInteger remaining) {
            return Placing.movements("actives", caughtUp, byLag, clients, warmups, remaining);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Integer answer, @Advice.Return(readOnly = false) int returned) {
            if (answer != null) {
                returned = answer;
            }
        }
    }
}
