package bellwether.broker;

import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * Asks the Bellwether beside this broker for the plan of a group of the consumer protocol. It runs on a thread of the
 * group coordinator, so it waits for a plan until a deadline. Without a plan members keep what they have, and only
 * partitions without an owner are placed. It throws nothing that the broker's own assignor would not throw.
 *
 * <p>This class is for the policy that Bellwether's configuration gives to the group; its subclasses name a policy.
 */
public class BellwetherAssignor implements ConsumerGroupPartitionAssignor, Configurable {
    private final String name;
    private final ConsumerGroupPartitionAssignor own = new UniformAssignor();
    private final Outcomes outcomes;
    private volatile Link link = Link.NONE;

    public BellwetherAssignor() {
        this("bellwether");
    }

    BellwetherAssignor(String name) {
        this.name = name;
        this.outcomes = Outcomes.of(name, "partitions");
    }

    @Override
    public void configure(Map<String, ?> configs) {
        link = Link.configured(configs, Link.CONSUMERS);
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
        long began = System.nanoTime();
        Problem problem = null;
        try {
            problem = Problem.of(group, topics);
            GroupAssignment plan = problem.assignment(link.plan(Link.CONSUMERS, name, problem));
            outcomes.ended(System.nanoTime() - began, null);
            return plan;
        } catch (Exception | LinkageError reason) {
            GroupAssignment plan = without(group, topics, problem);
            outcomes.ended(System.nanoTime() - began, reason);
            return plan;
        }
    }

    /** What a group gets when Bellwether gives no plan. */
    private GroupAssignment without(GroupSpec group, SubscribedTopicDescriber topics, Problem problem) {
        if (problem != null && problem.hasOwners()) {
            return problem.assignment(problem.kept());
        }
        try {
            return own.assign(group, topics);
        } catch (RuntimeException refused) {  // for example a topic that has just been deleted
            if (problem == null) {
                throw refused;  // nothing is known of the group, and an empty assignment would stop it
            }
            return problem.assignment(problem.kept());
        }
    }
}
