package bellwether;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Assignors of consumers: members go to Python as the bytes that they would send, and what comes back are the bytes that
 * they would get. Kafka's own assignor answers the same question beside it, and both plans are compared.
 */
public final class Consumers {
    /** Partitions times members; beyond it Kafka's own assignor takes minutes. */
    private static final long COMPARED_MAX = 100_000;

    private static final ThreadLocal<Boolean> KAFKA = ThreadLocal.withInitial(() -> false);
    private static final Map<Object, Boolean> STICKY = new WeakHashMap<>();

    private Consumers() {}

    /** Null where Kafka's own method is to run. */
    @SuppressWarnings("unchecked")
    public static Map<String, List<TopicPartition>> assign(Object of, Map<?, ?> topics, Map<?, ?> members) {
        if (KAFKA.get()) {
            return null;
        }
        AbstractPartitionAssignor assignor = (AbstractPartitionAssignor) of;
        Map<String, Subscription> subscriptions = (Map<String, Subscription>) members;
        JsonNode answer = Ask.ask("consumers", question(assignor.name(), topics, subscriptions));
        Map<String, List<TopicPartition>> plan = new HashMap<>();
        answer.get("assignments").properties().forEach(one -> plan.put(one.getKey(), partitions(one.getValue())));
        Map<TopicPartition, String> target = new HashMap<>();
        answer.get("target").forEach(
            one -> target.put(new TopicPartition(one.get(0).asText(), one.get(1).asInt()), one.get(2).asText()));
        Map<TopicPartition, Set<String>> claims = claims(assignor, subscriptions);
        if (assignor instanceof AbstractStickyAssignor) {
            note((AbstractStickyAssignor) assignor, subscriptions, target, claims);
        }
        compare(assignor, topics, members, plan, claims);
        return plan;
    }

    public static boolean isSticky(Object assignor) {
        return STICKY.getOrDefault(assignor, true);
    }

    private static ObjectNode question(String protocol, Map<?, ?> topics, Map<String, Subscription> subscriptions) {
        ObjectNode question = Ask.JSON.createObjectNode().put("protocol", protocol);
        ObjectNode cluster = question.putObject("topics");
        topics.forEach((topic, known) -> {
            ArrayNode racks = cluster.putArray((String) topic);
            if (known instanceof Integer) {
                for (int p = 0; p < (Integer) known; p++) {
                    racks.addArray();
                }
            } else if (known != null) {
                ((List<?>) known).forEach(partition -> racks(racks.addArray(), ((PartitionInfo) partition).replicas()));
            }
        });
        ArrayNode group = question.putArray("members");
        subscriptions.forEach((member, subscription) -> group.addObject()
            .put("id", member)
            .put("instance", subscription.groupInstanceId().orElse(null))
            .put("metadata", bytes(ConsumerProtocol.serializeSubscription(subscription))));
        return question;
    }

    private static void racks(ArrayNode racks, Node[] replicas) {
        for (Node node : replicas == null ? new Node[0] : replicas) {
            racks.add(node.rack());
        }
    }

    private static List<TopicPartition> partitions(JsonNode blob) {
        ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(blob.asText()));
        return new ArrayList<>(ConsumerProtocol.deserializeAssignment(bytes).partitions());
    }

    private static String bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** Who says that it has each partition, as Kafka's assignor reads it, and subscribes to it. */
    private static Map<TopicPartition, Set<String>> claims(
        AbstractPartitionAssignor assignor, Map<String, Subscription> subscriptions) {
        Map<TopicPartition, Set<String>> claims = new HashMap<>();
        if (!(assignor instanceof AbstractStickyAssignor)) {
            return claims;
        }
        subscriptions.forEach((member, subscription) -> {
            for (TopicPartition partition : claimed(assignor, subscription)) {
                if (subscription.topics().contains(partition.topic())) {
                    claims.computeIfAbsent(partition, p -> new HashSet<>()).add(member);
                }
            }
        });
        return claims;
    }

    private static List<TopicPartition> claimed(AbstractPartitionAssignor assignor, Subscription subscription) {
        try {
            var read = assignor.getClass().getDeclaredMethod("memberData", Subscription.class);
            read.setAccessible(true);
            return ((AbstractStickyAssignor.MemberData) read.invoke(assignor, copy(subscription))).partitions;
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
    }

    /** Kafka's assignor reads userData once: its buffer stands at the end then. */
    private static Subscription copy(Subscription of) {
        ByteBuffer data = of.userData() == null ? null : of.userData().duplicate();
        int generation = of.generationId().orElse(AbstractStickyAssignor.DEFAULT_GENERATION);
        Subscription copy = new Subscription(of.topics(), data, of.ownedPartitions(), generation, of.rackId());
        copy.setGroupInstanceId(of.groupInstanceId());
        return copy;
    }

    /** What Kafka's assignor keeps beside its plan and tests look at: what is on its way, where subscriptions are equal. */
    private static void note(
        AbstractStickyAssignor assignor,
        Map<String, Subscription> subscriptions,
        Map<TopicPartition, String> target,
        Map<TopicPartition, Set<String>> claims) {
        Map<TopicPartition, String> moving = new HashMap<>();
        target.forEach((partition, member) -> {
            Set<String> holders = claims.getOrDefault(partition, Set.of());
            if (!holders.isEmpty() && !holders.contains(member)) {
                moving.put(partition, member);
            }
        });
        boolean alike = subscriptions.values().stream().map(s -> Set.copyOf(s.topics())).distinct().count() <= 1;
        try {
            var field = AbstractStickyAssignor.class.getDeclaredField("partitionsTransferringOwnership");
            field.setAccessible(true);
            field.set(assignor, alike ? moving : null);
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
        STICKY.put(assignor, !turnsRound(moving, claims));
    }

    /** Whether two members gave each other partitions of one topic. */
    private static boolean turnsRound(Map<TopicPartition, String> moving, Map<TopicPartition, Set<String>> claims) {
        Set<List<String>> moves = new HashSet<>();
        moving.forEach((p, to) -> claims.get(p).forEach(from -> moves.add(List.of(p.topic(), from, to))));
        return moves.stream().anyMatch(move -> moves.contains(List.of(move.get(0), move.get(2), move.get(1))));
    }

    private static void compare(
        AbstractPartitionAssignor assignor,
        Map<?, ?> topics,
        Map<?, ?> members,
        Map<String, List<TopicPartition>> ours,
        Map<TopicPartition, Set<String>> claims) {
        long partitions = ours.values().stream().mapToLong(List::size).sum();
        Map<String, List<TopicPartition>> theirs =
            partitions * members.size() > COMPARED_MAX ? null : kafkas(assignor, topics, members);
        if (theirs == null) {
            return;
        }
        boolean same = ours.keySet().equals(theirs.keySet())
            && ours.keySet().stream().allMatch(m -> Set.copyOf(ours.get(m)).equals(Set.copyOf(theirs.get(m))));
        List<String> worse = new ArrayList<>();
        if (!same && spread(ours) > spread(theirs)) {
            worse.add("loads " + spread(ours) + " > " + spread(theirs));
        } else if (!same && spread(ours) == spread(theirs) && kept(ours, claims) < kept(theirs, claims)) {
            worse.add("kept " + kept(ours, claims) + " < " + kept(theirs, claims));
        }
        Ask.compared(assignor, same, String.join(", ", worse));
    }

    /** The plan of Kafka's own assignor, null where it fails. */
    @SuppressWarnings("unchecked")
    private static Map<String, List<TopicPartition>> kafkas(
        AbstractPartitionAssignor assignor, Map<?, ?> topics, Map<?, ?> members) {
        KAFKA.set(true);
        try {
            AbstractPartitionAssignor fresh = assignor.getClass().getDeclaredConstructor().newInstance();
            Map<String, Subscription> subscriptions = new HashMap<>();
            ((Map<String, Subscription>) members).forEach((member, of) -> subscriptions.put(member, copy(of)));
            if (topics.values().stream().anyMatch(known -> known instanceof Integer)) {
                return fresh.assign((Map<String, Integer>) topics, subscriptions);
            }
            return fresh.assignPartitions((Map<String, List<PartitionInfo>>) topics, subscriptions);
        } catch (ReflectiveOperationException | RuntimeException failed) {
            return null;
        } finally {
            KAFKA.set(false);
        }
    }

    private static long spread(Map<String, List<TopicPartition>> plan) {
        return plan.values().stream().mapToLong(mine -> (long) mine.size() * mine.size()).sum();
    }

    private static long kept(Map<String, List<TopicPartition>> plan, Map<TopicPartition, Set<String>> claims) {
        return plan.entrySet().stream()
            .mapToLong(one -> one.getValue().stream()
                .filter(p -> claims.getOrDefault(p, Set.of()).contains(one.getKey())).count())
            .sum();
    }

    /** Woven around assign and assignPartitions. */
    public static final class Assign {
        private Assign() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Map<?, ?> enter(
            @Advice.This Object assignor, @Advice.Argument(0) Map<?, ?> topics, @Advice.Argument(1) Map<?, ?> members) {
            return Consumers.assign(assignor, topics, members);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Map<?, ?> answer, @Advice.Return(readOnly = false) Map<?, ?> returned) {
            if (answer != null) {
                returned = answer;
            }
        }
    }

    /** Woven around isSticky. */
    public static final class Sticky {
        private Sticky() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter() {
            return true;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.This Object assignor, @Advice.Return(readOnly = false) boolean returned) {
            returned = Consumers.isSticky(assignor);
        }
    }
}
