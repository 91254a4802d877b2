package org.apache.kafka.streams.processor.internals.assignment;

import bellwether.Ask;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;

/** ClientStates as JSON, and answers written into them. In Kafka's package to reach what it needs, as all beside it. */
final class States {
    private States() {}

    /** Processes in the order of the map, tasks in theirs: what processes had, their lags, and what is placed on them. */
    static ObjectNode question(Map<ProcessId, ClientState> clients, List<TaskId> tasks, Set<TaskId> stateful) {
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
            named(process.putArray("active"), client.prevActiveTasks(), tasks);
            named(process.putArray("standby"), client.prevStandbyTasks(), tasks);
            named(process.putArray("placed"), client.activeTasks(), tasks);
            named(process.putArray("copies"), client.standbyTasks(), tasks);
            ArrayNode lags = process.putArray("lags");
            client.taskLagTotals().forEach((task, lag) -> {
                if (tasks.contains(task)) {
                    lags.addArray().add(tasks.indexOf(task)).add(lag);
                }
            });
        });
        return question;
    }

    private static void named(ArrayNode row, Collection<TaskId> held, List<TaskId> tasks) {
        held.stream().filter(tasks::contains).sorted().forEach(task -> row.add(tasks.indexOf(task)));
    }

    /** All tasks that are placed, and these. */
    static List<TaskId> tasks(Map<ProcessId, ClientState> clients, Collection<TaskId> more) {
        Set<TaskId> tasks = new TreeSet<>(more);
        clients.values().forEach(client -> tasks.addAll(client.assignedTasks()));
        return new ArrayList<>(tasks);
    }

    /** The racks of processes and of the replicas of the partitions of tasks. */
    @SuppressWarnings("unchecked")
    static void racks(
        ObjectNode question, RackAwareTaskAssignor optimiser, Collection<ProcessId> processes, List<TaskId> tasks) {
        Map<TopicPartition, Set<String>> held = optimiser.racksForPartition();
        for (String kind : new String[] {"partitionsForTask", "changelogPartitionsForTask"}) {
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

    /** Places what the answer says, and takes away what it does not say. */
    static void apply(JsonNode answer, Map<ProcessId, ClientState> clients, List<TaskId> tasks) {
        int row = 0;
        List<Set<TaskId>> active = new ArrayList<>();
        List<Set<TaskId>> standby = new ArrayList<>();
        for (ClientState client : clients.values()) {
            active.add(read(answer.get("active").get(row), tasks));
            standby.add(read(answer.get("standby").get(row), tasks));
            unlessIn(active.get(row), client.activeTasks()).forEach(client::unassignActive);
            unlessIn(standby.get(row++), client.standbyTasks()).forEach(client::unassignStandby);
        }
        row = 0;
        for (ClientState client : clients.values()) {
            unlessIn(client.activeTasks(), active.get(row)).forEach(client::assignActive);
            unlessIn(client.standbyTasks(), standby.get(row++)).forEach(client::assignStandby);
        }
    }

    private static Set<TaskId> read(JsonNode row, List<TaskId> tasks) {
        Set<TaskId> read = new TreeSet<>();
        row.forEach(task -> read.add(tasks.get(task.asInt())));
        return read;
    }

    private static Set<TaskId> unlessIn(Set<TaskId> some, Set<TaskId> of) {
        Set<TaskId> rest = new TreeSet<>(of);
        rest.removeAll(some);
        return rest;
    }

    static TreeMap<ProcessId, ClientState> copy(Map<ProcessId, ClientState> clients) {
        TreeMap<ProcessId, ClientState> copies = new TreeMap<>();
        clients.forEach((id, client) -> {
            ClientState copy = new ClientState(client);
            copy.assignActiveTasks(client.activeTasks());
            copy.assignStandbyTasks(client.standbyTasks());
            copies.put(id, copy);
        });
        return copies;
    }

    static boolean same(Map<ProcessId, ClientState> ours, Map<ProcessId, ClientState> theirs) {
        return ours.keySet().stream().allMatch(p -> ours.get(p).activeTasks().equals(theirs.get(p).activeTasks())
            && ours.get(p).standbyTasks().equals(theirs.get(p).standbyTasks()));
    }

    /** Unevenness of loads: threads, each with its share of the tasks of its process, squared. */
    static double unevenness(Map<ProcessId, ClientState> clients, boolean activesOnly) {
        return clients.values().stream()
            .mapToDouble(c -> Math.pow(activesOnly ? c.activeTaskCount() : c.assignedTaskCount(), 2) / c.capacity())
            .sum();
    }

    /** How many copies that processes had do not stay where they were; an active task that stays active counts twice. */
    static long moved(Map<ProcessId, ClientState> clients) {
        return clients.values().stream()
            .mapToLong(c -> 2L * c.prevActiveTasks().size() + c.prevStandbyTasks().size()
                - 2L * common(c.activeTasks(), c.prevActiveTasks())
                - common(c.activeTasks(), c.prevStandbyTasks()))
            .sum();
    }

    private static long common(Set<TaskId> one, Set<TaskId> other) {
        return one.stream().filter(other::contains).count();
    }

    /** The copies that are missing: active tasks that nobody has, and standbys. */
    static long missing(Map<ProcessId, ClientState> clients, Set<TaskId> all, Set<TaskId> stateful, int replicas) {
        Set<TaskId> placed = new HashSet<>();
        clients.values().forEach(client -> placed.addAll(client.activeTasks()));
        long missing = all.stream().filter(task -> !placed.contains(task)).count();
        for (TaskId task : stateful) {
            long copies = clients.values().stream().filter(client -> client.hasStandbyTask(task)).count();
            missing += Math.max(0, Math.min(replicas, clients.size() - 1) - copies);
        }
        return missing;
    }

    /** Copies of tasks with state in a rack that has another copy of the same task. */
    static long sharedRacks(Map<ProcessId, ClientState> clients, Set<TaskId> stateful, Map<ProcessId, String> racks) {
        return stateful.stream()
            .mapToLong(task -> {
                List<ProcessId> holders = clients.keySet().stream().filter(p -> clients.get(p).hasAssignedTask(task)).toList();
                return holders.size() - holders.stream().map(racks::get).distinct().count();
            })
            .sum();
    }

    static Object field(Object of, String name) {
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
}
