package org.apache.kafka.streams.processor.internals.assignment;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.Task;

/**
 * What a plan comes to: round by round everything that was assigned catches up and the same assignor plans again, until a
 * plan keeps all tasks where they are.
 */
final class Rest {
    /** `moves` of all rounds, the first one included; a plan that never comes to rest has more than any other. */
    record Reached(Map<ProcessId, ClientState> clients, long moves) {}

    private static final int ROUNDS_MAX = 50;
    private static final long NEVER = Integer.MAX_VALUE;

    private Rest() {}

    /** `assigns` places the tasks, and says whether it could. */
    static Reached of(Map<ProcessId, ClientState> planned, Predicate<Map<ProcessId, ClientState>> assigns) {
        Map<ProcessId, ClientState> clients = planned;
        long moves = States.moved(clients);
        for (int round = 0; round < ROUNDS_MAX; round++) {
            TreeMap<ProcessId, ClientState> next = caughtUp(clients);
            if (!assigns.test(next)) {
                return new Reached(clients, NEVER);
            }
            if (States.same(clients, next)) {
                return new Reached(clients, moves);
            }
            moves += States.moved(next);
            clients = next;
        }
        return new Reached(clients, NEVER);
    }

    /** The same processes when they have restored what they were given. State that they no longer need they still have. */
    private static TreeMap<ProcessId, ClientState> caughtUp(Map<ProcessId, ClientState> clients) {
        TreeMap<ProcessId, ClientState> next = new TreeMap<>();
        clients.forEach((id, client) -> {
            Map<TaskId, Long> lags = new HashMap<>(client.taskLagTotals());
            lags.replaceAll((task, lag) -> client.hasAssignedTask(task) ? Long.valueOf(0L) : Long.valueOf(Math.max(0L, lag)));
            client.activeTasks().forEach(task -> lags.computeIfPresent(task, (same, lag) -> Task.LATEST_OFFSET));
            next.put(id, new ClientState(
                client.activeTasks(), client.standbyTasks(), lags, client.clientTags(), client.capacity(), id));
        });
        return next;
    }
}
