package bellwether;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * The broker's uniform assignor (KIP-848) on a classic group's subscriptions. The broker has members and owners in its
 * own structures before a rebalance begins, so only its assign() counts: `nanos` of the last call.
 */
final class UniformAdapter implements ConsumerPartitionAssignor {
    private final UniformAssignor assignor = new UniformAssignor();
    private final Map<String, Uuid> ids = new HashMap<>();
    private final Map<Uuid, String> names = new HashMap<>();
    long nanos;

    @Override
    public String name() {
        return "uniform";
    }

    @Override
    public GroupAssignment assign(Cluster cluster, GroupSubscription group) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<String>> subscriptions = new HashSet<>();
        group.groupSubscription().forEach((member, one) -> {
            subscriptions.add(Set.copyOf(one.topics()));
            members.put(member, broker(member, one, owners));
        });
        SubscriptionType type =
            subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupSpecImpl spec = new GroupSpecImpl(members, type, owners);
        SubscribedTopicDescriber topics = topics(cluster);
        long start = BenchMain.now();
        Map<String, MemberAssignment> plan = assignor.assign(spec, topics).members();
        nanos = BenchMain.now() - start;
        Map<String, Assignment> answer = new HashMap<>();
        group.groupSubscription().keySet().forEach(member -> answer.put(member, classic(plan.get(member))));
        return new GroupAssignment(answer);
    }

    private MemberSubscriptionAndAssignmentImpl broker(
        String member, Subscription one, Map<Uuid, Map<Integer, String>> owners) {
        Set<Uuid> topics = new HashSet<>();
        one.topics().forEach(topic -> topics.add(id(topic)));
        Map<Uuid, Set<Integer>> owned = new HashMap<>();
        for (TopicPartition partition : one.ownedPartitions()) {
            Uuid topic = id(partition.topic());
            owned.computeIfAbsent(topic, t -> new HashSet<>()).add(partition.partition());
            owners.computeIfAbsent(topic, t -> new HashMap<>()).put(partition.partition(), member);
        }
        return new MemberSubscriptionAndAssignmentImpl(
            one.rackId(), Optional.empty(), topics,
            new org.apache.kafka.coordinator.group.modern.Assignment(owned));
    }

    private Assignment classic(MemberAssignment one) {
        List<TopicPartition> partitions = new ArrayList<>();
        if (one != null) {
            one.partitions().forEach(
                (topic, some) -> some.forEach(p -> partitions.add(new TopicPartition(names.get(topic), p))));
        }
        return new Assignment(partitions);
    }

    private SubscribedTopicDescriber topics(Cluster cluster) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                Integer count = cluster.partitionCountForTopic(names.get(topic));
                return count == null ? -1 : count;
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                Set<String> racks = new HashSet<>();
                PartitionInfo found = cluster.partition(new TopicPartition(names.get(topic), partition));
                for (Node node : found.replicas()) {
                    racks.add(node.rack());
                }
                return racks;
            }
        };
    }

    private Uuid id(String topic) {
        return ids.computeIfAbsent(topic, name -> {
            Uuid made = new Uuid(1, ids.size() + 1);
            names.put(made, name);
            return made;
        });
    }
}
