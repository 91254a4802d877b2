package bellwether.broker;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.function.BiFunction;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;

/**
 * A group as dense arrays. Members and topics are sorted, and a partition is one number: {@code first[topic]} plus its
 * number in the topic. {@code owner} has the member of each in the present target, or NOBODY.
 */
final class Problem implements Question {
    static final int NOBODY = -1;

    private record Member(String id, String instance, String rack, int subscription) {}

    private final List<Member> members = new ArrayList<>();
    private final List<BitSet> subscriptions;  // each distinct one, as positions in `topics`
    private final Uuid[] topics;
    private final int[] first;
    private final int[] topicOf;
    private final int[] owner;
    private final BiFunction<Uuid, Integer, Set<String>> racks;

    private Problem(TreeMap<Uuid, Integer> sizes, Collection<BitSet> subscriptions,
                    BiFunction<Uuid, Integer, Set<String>> racks) {
        this.subscriptions = List.copyOf(subscriptions);
        this.topics = sizes.keySet().toArray(new Uuid[0]);
        this.first = new int[topics.length + 1];
        for (int t = 0; t < topics.length; t++) {
            first[t + 1] = first[t] + sizes.get(topics[t]);
        }
        this.owner = new int[first[topics.length]];
        this.topicOf = new int[owner.length];
        Arrays.fill(owner, NOBODY);
        for (int t = 0; t < topics.length; t++) {
            Arrays.fill(topicOf, first[t], first[t + 1], t);
        }
        this.racks = racks;
    }

    /** A group that no broker has, by which a link finds out whether plans come in time. */
    static Problem invented() {
        BitSet all = new BitSet();
        all.set(0);
        Uuid topic = new Uuid(0, 2);  // Kafka makes no such id
        Problem made = new Problem(new TreeMap<>(Map.of(topic, 4)), List.of(all), (t, partition) -> Set.of());
        made.members.addAll(List.of(new Member("a", "", "", 0), new Member("b", "", "", 0)));
        return made;
    }

    static Problem of(GroupSpec group, SubscribedTopicDescriber described) {
        boolean alike = group.subscriptionType() == SubscriptionType.HOMOGENEOUS;
        Map<String, MemberSubscription> said = new TreeMap<>();
        TreeMap<Uuid, Integer> sizes = new TreeMap<>();
        for (String id : group.memberIds()) {
            said.put(id, group.memberSubscription(id));
            if (!alike || said.size() == 1) {
                said.get(id).subscribedTopicIds()
                    .forEach(topic -> sizes.computeIfAbsent(topic, described::numPartitions));
            }
        }
        sizes.values().removeIf(size -> size <= 0);  // -1: the topic is gone
        Map<Uuid, Integer> positions = new HashMap<>();
        sizes.keySet().forEach(topic -> positions.put(topic, positions.size()));
        Map<BitSet, Integer> distinct = new LinkedHashMap<>();
        List<Member> members = new ArrayList<>();
        said.forEach((id, its) -> {
            int subscription = alike && !members.isEmpty() ? 0
                : distinct.computeIfAbsent(places(its.subscribedTopicIds(), positions), any -> distinct.size());
            members.add(new Member(id, its.instanceId().orElse(""), its.rackId().orElse(""), subscription));
        });
        Problem found = new Problem(sizes, distinct.keySet(), described::racksForPartition);
        found.members.addAll(members);
        for (int m = 0; m < members.size(); m++) {
            found.hold(m, group.memberAssignment(members.get(m).id()).partitions(), positions);
        }
        return found;
    }

    private static BitSet places(Set<Uuid> topics, Map<Uuid, Integer> positions) {
        BitSet found = new BitSet();
        topics.stream().filter(positions::containsKey).forEach(topic -> found.set(positions.get(topic)));
        return found;
    }

    /** Takes what a member has, without what it no longer subscribes to. */
    private void hold(int member, Map<Uuid, Set<Integer>> partitions, Map<Uuid, Integer> positions) {
        partitions.forEach((topic, numbers) -> {
            Integer t = positions.get(topic);
            if (t != null && wants(member, t)) {
                numbers.stream().filter(number -> number < first[t + 1] - first[t])
                    .forEach(number -> owner[first[t] + number] = member);
            }
        });
    }

    private boolean wants(int member, int topic) {
        return subscriptions.get(members.get(member).subscription()).get(topic);
    }

    boolean hasOwners() {
        return Arrays.stream(owner).anyMatch(member -> member != NOBODY);
    }

    /** The present target, in which each partition without an owner goes to the subscriber that has the fewest. */
    int[] kept() {
        int[] plan = owner.clone();
        int[] held = new int[members.size()];
        Arrays.stream(plan).filter(member -> member != NOBODY).forEach(member -> held[member]++);
        for (int flat = 0; flat < plan.length; flat++) {
            if (plan[flat] == NOBODY) {
                plan[flat] = fewest(held, topicOf[flat]);
                held[plan[flat]]++;
            }
        }
        return plan;
    }

    private int fewest(int[] held, int topic) {
        int found = NOBODY;
        for (int m = 0; m < held.length; m++) {
            if (wants(m, topic) && (found == NOBODY || held[m] < held[found])) {
                found = m;
            }
        }
        return found;  // each topic here has a subscriber
    }

    /** Each partition must belong to one member that subscribes to its topic. */
    @Override
    public String fault(int[] plan) {
        if (plan.length != owner.length) {
            return "the plan has " + plan.length + " partitions, the group has " + owner.length;
        }
        for (int flat = 0; flat < plan.length; flat++) {
            int t = topicOf[flat];
            if (plan[flat] < 0 || plan[flat] >= members.size() || !wants(plan[flat], t)) {
                return "the plan gives partition " + (flat - first[t]) + " of topic " + topics[t]
                    + " to no member that subscribes to it";
            }
        }
        return null;
    }

    GroupAssignment assignment(int[] plan) {
        List<Map<Uuid, Set<Integer>>> held = new ArrayList<>();
        Map<String, MemberAssignment> found = new HashMap<>();
        for (Member member : members) {
            Map<Uuid, Set<Integer>> partitions = new HashMap<>();
            held.add(partitions);
            found.put(member.id(), () -> partitions);
        }
        for (int flat = 0; flat < plan.length; flat++) {
            int t = topicOf[flat];
            held.get(plan[flat]).computeIfAbsent(topics[t], any -> new LinkedHashSet<>()).add(flat - first[t]);
        }
        return new GroupAssignment(found);
    }

    @Override
    public ByteBuffer request(int kind, String assignor, int number) throws IOException {
        Map<Set<String>, Integer> sets = new LinkedHashMap<>();
        int[] setOf = new int[owner.length];
        for (int flat = 0; flat < setOf.length; flat++) {
            int t = topicOf[flat];
            setOf[flat] = sets.computeIfAbsent(racks.apply(topics[t], flat - first[t]), any -> sets.size());
        }
        Set<String> names = new TreeSet<>();
        sets.keySet().forEach(names::addAll);
        members.forEach(member -> names.add(member.rack()));
        names.remove("");
        List<String> known = List.copyOf(names);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        head(out, kind, assignor, number);
        texts(out, known);
        // An empty broker.rack is none.
        write(out, sets.keySet().stream().map(s -> s.stream().mapToInt(known::indexOf).filter(r -> r >= 0).toArray()).toList());
        out.writeInt(topics.length);
        for (int t = 0; t < topics.length; t++) {
            out.writeLong(topics[t].getMostSignificantBits());
            out.writeLong(topics[t].getLeastSignificantBits());
            out.writeInt(first[t + 1] - first[t]);
        }
        write(out, subscriptions.stream().map(set -> set.stream().toArray()).toList());
        out.writeInt(members.size());
        for (Member member : members) {
            out.writeUTF(member.id());
            out.writeUTF(member.instance());
            out.writeInt(known.indexOf(member.rack()));
            out.writeInt(member.subscription());
        }
        write(out, List.of(setOf, owner));
        return ByteBuffer.wrap(bytes.toByteArray()).putInt(0, bytes.size() - Integer.BYTES);
    }

    static void head(DataOutputStream out, int kind, String assignor, int number) throws IOException {
        out.writeInt(0);  // the size, known at the end
        out.writeByte(Link.VERSION);
        out.writeByte(kind);
        out.writeInt(number);
        out.writeUTF(assignor);
    }

    static void texts(DataOutputStream out, Collection<String> texts) throws IOException {
        out.writeInt(texts.size());
        for (String text : texts) {
            out.writeUTF(text);
        }
    }

    static void write(DataOutputStream out, List<int[]> lists) throws IOException {
        out.writeInt(lists.size());
        for (int[] list : lists) {
            out.writeInt(list.length);
            for (int value : list) {
                out.writeInt(value);
            }
        }
    }
}
