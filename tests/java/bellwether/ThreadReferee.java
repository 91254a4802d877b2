package org.apache.kafka.streams.processor.internals;

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
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;

/**
 * Kafka's distribution of a process's tasks to its threads as a referee; in Kafka's package to reach it. Reads one
 * problem per line as JSON and prints one answer per line.
 *
 * Problem: tasks [[subtopology, partition, end sum or null if stateless]], active and standby (task indices), members
 * [[id, [[task index, offset sum]]]] in the order in which they are added. Answer: per member active and standby as
 * task indices in Kafka's order, nanos.
 */
public final class ThreadReferee {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ThreadReferee() {
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
        List<TaskId> tasks = new ArrayList<>();
        Map<TaskId, Integer> index = new HashMap<>();
        Map<TaskId, Long> ends = new HashMap<>();
        for (JsonNode task : problem.get("tasks")) {
            TaskId id = new TaskId(task.get(0).asInt(), task.get(1).asInt());
            index.put(id, tasks.size());
            tasks.add(id);
            if (!task.get(2).isNull()) {
                ends.put(id, task.get(2).asLong());
            }
        }
        ProcessId process = new ProcessId(new UUID(0, 1));
        ClientState client = new ClientState(process, Map.of());
        SortedSet<String> members = new TreeSet<>();
        for (JsonNode member : problem.get("members")) {
            Map<TaskId, Long> sums = new HashMap<>();
            member.get(1).forEach(sum -> sums.put(tasks.get(sum.get(0).asInt()), sum.get(1).asLong()));
            client.addPreviousTasksAndOffsetSums(member.get(0).asText(), sums);
            client.incrementCapacity();
            members.add(member.get(0).asText());
        }
        client.computeTaskLags(process, ends);
        problem.get("active").forEach(task -> client.assignActive(tasks.get(task.asInt())));
        problem.get("standby").forEach(task -> client.assignStandby(tasks.get(task.asInt())));

        long started = System.nanoTime();
        Map<String, Integer> loads = new HashMap<>();
        Map<String, List<TaskId>> active = deal(client.statefulActiveTasks(), true, members, client, loads);
        Map<String, List<TaskId>> standby = deal(client.standbyTasks(), true, members, client, loads);
        Map<String, List<TaskId>> stateless = deal(client.statelessActiveTasks(), false, members, client, loads);
        stateless.forEach((member, more) -> active.get(member).addAll(more));

        ObjectNode answer = JSON.createObjectNode().put("nanos", System.nanoTime() - started);
        write(answer.putObject("active"), active, index);
        write(answer.putObject("standby"), standby, index);
        return answer;
    }

    private static Map<String, List<TaskId>> deal(
        Collection<TaskId> tasks,
        boolean sticky,
        SortedSet<String> members,
        ClientState client,
        Map<String, Integer> loads
    ) {
        return StreamsPartitionAssignor.assignTasksToThreads(tasks, sticky, members, client, loads);
    }

    private static void write(ObjectNode rows, Map<String, List<TaskId>> dealt, Map<TaskId, Integer> index) {
        dealt.forEach((member, tasks) -> {
            ArrayNode row = rows.putArray(member);
            tasks.forEach(task -> row.add(index.get(task)));
        });
    }
}
