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
    private static final Map<Object, Boolean> STICKY = new WeakHashMap<>();

    private Consumers() {}

    /** Null where Kafka's own method is to run. */
    @SuppressWarnings("unchecked")
    public static Map<String, List<TopicPartition>> assign(Object of, Map<?, ?> topics, Map<?, ?> members) {
        if (Ask.isKafkas()) {
            return null;
        }
        AbstractPartitionAssignor assignor = (AbstractPartitionAssignor) of;
        Map<String, Subscription> subscriptions = (Map<String, Subscription>) members;
        JsonNode answer = Ask.ask("consumers", question(assignor.name(), topics, subscriptions));
        Map<String, List<TopicPartition>> plan = new HashMap<>();
        answer.get("assignments").properties().forEach(one -> plan.put(one.getKey(), partitions(one.getValue())));
        Claims claims = claims(assignor, subscriptions);
        if (assignor instanceof AbstractStickyAssignor) {
            note((AbstractStickyAssignor) assignor, subscriptions, moving(plan, answer.get("withheld"), claims), claims);
        }
        compare(assignor, topics, members, plan, claims);
        return plan;
    }

    public static boolean isSticky(Object assignor) {
        return STICKY.getOrDefault(assignor, true);
    }

    private static ObjectNode question(String protocol, Map<?, ?> topics, Map<String, Subscription> subscriptions) {
        ObjectNode question = Ask.JSON.createObjectNode().put("protocol", protocol);
        topics(question, topics);
        ArrayNode group = question.putArray("members");
        subscriptions.forEach((member, subscription) -> group.addObject()
            .put("id", member)
            .put("instance", subscription.groupInstanceId().orElse(null))
            .put("metadata", bytes(ConsumerProtocol.serializeSubscription(subscription))));
        return question;
    }

    /** A number of partitions for each topic, or for each partition which of the different sets of racks it has. */
    private static void topics(ObjectNode question, Map<?, ?> topics) {
        ObjectNode cluster = question.putObject("topics");
        ArrayNode sets = question.putArray("racks");
        Map<List<String>, Integer> numbers = new HashMap<>();
        topics.forEach((topic, known) -> {
            if (known instanceof Integer) {
                cluster.put((String) topic, (Integer) known);
            } else if (known != null) {
                ArrayNode row = cluster.putArray((String) topic);
                ((List<?>) known).forEach(partition -> row.add(
                    numbers.computeIfAbsent(racks((PartitionInfo) partition), racks -> {
                        ArrayNode set = sets.addArray();
                        racks.forEach(set::add);
                        return sets.size() - 1;
                    })));
            }
        });
    }

    private static List<String> racks(PartitionInfo partition) {
        List<String> racks = new ArrayList<>();
        for (Node node : partition.replicas() == null ? new Node[0] : partition.replicas()) {
            racks.add(node.rack());
        }
        return racks;
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
    private static Claims claims(
        AbstractPartitionAssignor assignor, Map<String, Subscription> subscriptions) {
        Claims claims = new Claims();
        if (!(assignor instanceof AbstractStickyAssignor)) {
            return claims;
        }
        subscriptions.forEach((member, subscription) -> {
            for (TopicPartition partition : claimed(assignor, subscription)) {
                if (subscription.topics().contains(partition.topic())) {
                    claims.add(partition, member);
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

    /** What has another owner than the one that says it has it: of what is sent, and of what is withheld for a round. */
    private static Map<TopicPartition, String> moving(
        Map<String, List<TopicPartition>> plan, JsonNode withheld, Claims claims) {
        Map<TopicPartition, String> moving = new HashMap<>();
        if (claims.number > 0) {
            plan.forEach((member, partitions) -> partitions.forEach(partition -> {
                Set<String> holders = claims.of(partition);
                if (!holders.isEmpty() && !holders.contains(member)) {
                    moving.put(partition, member);
                }
            }));
        }
        withheld.forEach(one -> {
            TopicPartition partition = new TopicPartition(one.get(0).asText(), one.get(1).asInt());
            if (!claims.of(partition).isEmpty()) {
                moving.put(partition, one.get(2).asText());
            }
        });
        return moving;
    }

    /** What Kafka's assignor keeps beside its plan and tests look at: what is on its way, where subscriptions are equal. */
    private static void note(
        AbstractStickyAssignor assignor,
        Map<String, Subscription> subscriptions,
        Map<TopicPartition, String> moving,
        Claims claims) {
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
    private static boolean turnsRound(Map<TopicPartition, String> moving, Claims claims) {
        Set<List<String>> moves = new HashSet<>();
        moving.forEach((p, to) -> claims.of(p).forEach(from -> moves.add(List.of(p.topic(), from, to))));
        return moves.stream().anyMatch(move -> moves.contains(List.of(move.get(0), move.get(2), move.get(1))));
    }

    private static void compare(
        AbstractPartitionAssignor assignor,
        Map<?, ?> topics,
        Map<?, ?> members,
        Map<String, List<TopicPartition>> ours,
        Claims claims) {
        long partitions = ours.values().stream().mapToLong(List::size).sum();
        Map<String, List<TopicPartition>> theirs =
            Ask.kafkas(partitions * members.size(), () -> kafkas(assignor, topics, members));
        if (theirs == null) {
            return;
        }
        boolean same = ours.keySet().equals(theirs.keySet())
            && ours.keySet().stream().allMatch(m -> Set.copyOf(ours.get(m)).equals(Set.copyOf(theirs.get(m))));
        Report.compared(same, measures(ours, topics, members, claims), measures(theirs, topics, members, claims));
    }

    /** The plan of Kafka's own assignor. */
    @SuppressWarnings("unchecked")
    private static Map<String, List<TopicPartition>> kafkas(
        AbstractPartitionAssignor assignor, Map<?, ?> topics, Map<?, ?> members) {
        try {
            AbstractPartitionAssignor fresh = assignor.getClass().getDeclaredConstructor().newInstance();
            Map<String, Subscription> subscriptions = new HashMap<>();
            ((Map<String, Subscription>) members).forEach((member, of) -> subscriptions.put(member, copy(of)));
            if (topics.values().stream().anyMatch(known -> known instanceof Integer)) {
                return fresh.assign((Map<String, Integer>) topics, subscriptions);
            }
            return fresh.assignPartitions((Map<String, List<PartitionInfo>>) topics, subscriptions);
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
    }

    /** Unevenness of loads is their sum of squares; partitions on their way to another member are with nobody. */
    private static ObjectNode measures(
        Map<String, List<TopicPartition>> plan, Map<?, ?> topics, Map<?, ?> members, Claims claims) {
        long sent = 0;
        long loads = 0;
        long kept = 0;
        long racks = 0;
        for (var one : plan.entrySet()) {
            String rack = ((Subscription) members.get(one.getKey())).rackId().orElse("");
            sent += one.getValue().size();
            loads += (long) one.getValue().size() * one.getValue().size();
            for (TopicPartition partition : one.getValue()) {
                kept += claims.of(partition).contains(one.getKey()) ? 1 : 0;
                racks += isElsewhere(partition, topics.get(partition.topic()), rack) ? 1 : 0;
            }
        }
        return Ask.JSON.createObjectNode()
            .put("missing", -sent)
            .put("loads", loads)
            .put("moves", claims.number - kept)
            .put("racks", racks);
    }

    private static boolean isElsewhere(TopicPartition partition, Object known, String rack) {
        return !rack.isEmpty() && known instanceof List<?> && ((List<?>) known).stream()
            .map(PartitionInfo.class::cast)
            .anyMatch(one -> one.partition() == partition.partition() && !racks(one).contains(rack));
    }

    /**
     * Members by partition. In a HashMap by TopicPartition a million of them would share some ten thousand hash codes, and
     * adding one would search among all that share its own.
     */
    private static final class Claims {
        private final Map<String, Map<Integer, Set<String>>> members = new HashMap<>();
        private long number;

        void add(TopicPartition partition, String member) {
            Map<Integer, Set<String>> topic = members.computeIfAbsent(partition.topic(), t -> new HashMap<>());
            Set<String> known = topic.putIfAbsent(partition.partition(), Set.of(member));
            if (known == null) {
                number++;
            } else {
                Set<String> all = new HashSet<>(known);
                all.add(member);
                topic.put(partition.partition(), all);
            }
        }

        Set<String> of(TopicPartition partition) {
            return members.getOrDefault(partition.topic(), Map.of()).getOrDefault(partition.partition(), Set.of());
        }
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
