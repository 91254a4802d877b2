package bellwether.broker;

import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.streams.assignor.TaskAssignor;
import org.apache.kafka.coordinator.group.api.streams.assignor.TaskAssignorException;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;

/**
 * Asks the Bellwether beside this broker for the plan of a group of the streams protocol, as {@link BellwetherAssignor}
 * does for consumers, with a deadline of its own. Without a plan tasks stay where they run, copies stay where they are, and
 * only what has no owner is placed. The broker catches only TaskAssignorException, so nothing else is thrown.
 */
public final class BellwetherTaskAssignor implements TaskAssignor, Configurable {
    private static final String NAME = "bellwether";

    private final Outcomes outcomes = Outcomes.of(NAME + "-tasks", "tasks");
    private volatile Link link = Link.NONE;

    @Override
    public void configure(Map<String, ?> configs) {
        link = Link.configured(configs, Link.TASKS);
    }

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public GroupAssignment assign(GroupSpec group, TopologyDescriber topology) throws TaskAssignorException {
        long began = System.nanoTime();
        try {
            Tasks tasks = Tasks.of(group, topology);
            Throwable why = null;
            int[] plan;
            try {
                plan = link.plan(Link.TASKS, NAME, tasks);
            } catch (Exception | LinkageError reason) {
                plan = tasks.kept();
                why = reason;
            }
            GroupAssignment assignment = tasks.assignment(plan);
            outcomes.ended(System.nanoTime() - began, why);
            return assignment;
        } catch (Exception | LinkageError reason) {
            outcomes.ended(System.nanoTime() - began, reason);
            throw new TaskAssignorException("The group cannot be assigned.", reason);
        }
    }
}
