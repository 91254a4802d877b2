package bellwether;

import bellwether.broker.BellwetherAssignor;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Calls a broker-side assignor as a broker does, with its own classes, and checks each assignment. Arguments: the
 * assignor's class, then properties as name=value; "racks" are those of brokers and members. Each line on stdin,
 * "MEMBERS PARTITIONS CALLS", is a group whose member leaves or joins before each call; a line of JSON on stdout says
 * what came of it, after a single call with the owner of each partition.
 */
public final class AssignorMain {
    private static final int TOPICS = 2;
    private static String[] racks = {"az1", "az2", "az3"};

    private AssignorMain() {}

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        Map<String, String> properties = new HashMap<>();
        for (int i = 1; i < arguments.length; i++) {
            String[] parts = arguments[i].split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        racks = properties.getOrDefault("racks", String.join(",", racks)).split(",", -1);
        BellwetherAssignor assignor = null;
        for (int made = 0; made < 2; made++) {  // a broker makes several and calls one of them
            assignor = (BellwetherAssignor) Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
        }
        assignor.configure(properties);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Group> groups = new HashMap<>();
        System.out.println("{\"ready\":\"" + assignor.name() + "\"}");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] said = line.split(" ");
            Group group = groups.computeIfAbsent(said[0] + " " + said[1],
                any -> new Group(Integer.parseInt(said[0]), Integer.parseInt(said[1]) / TOPICS));
            System.out.println(group.called(assignor, Integer.parseInt(said[2])));
        }
    }

    /** A group between calls: members by id with their number, and the present target. */
    private static final class Group implements SubscribedTopicDescriber {
        private final int size;
        private final int partitions;
        private final TreeMap<String, Integer> members = new TreeMap<>();
        private Map<String, Map<Uuid, Set<Integer>>> target = new HashMap<>();
        private int joined;

        Group(int size, int partitions) {
            this.size = size;
            this.partitions = partitions;
            while (joined < size) {
                join();
            }
        }

        private void join() {
            members.put(String.format("member-%06d", joined), joined);
            joined++;
        }

        String called(BellwetherAssignor assignor, int calls) {
            List<String> faults = new ArrayList<>();
            List<Long> micros = new ArrayList<>();
            int served = 0;
            int movedByFallback = 0;
            int crossing = 0;
            for (int call = 0; call < calls; call++) {
                if (members.size() == size) {
                    members.pollFirstEntry();
                } else {
                    join();
                }
                GroupSpecImpl spec = spec();
                long plansBefore = plans(assignor);
                long began = System.nanoTime();
                Map<String, MemberAssignment> plan;
                try {
                    plan = assignor.assign(spec, this).members();
                } catch (RuntimeException thrown) {
                    faults.add("threw " + thrown);
                    continue;
                }
                micros.add((System.nanoTime() - began) / 1000);
                boolean planned = plans(assignor) > plansBefore;
                served += planned ? 1 : 0;
                Map<String, Map<Uuid, Set<Integer>>> next = new HashMap<>();
                plan.forEach((member, its) -> next.put(member, its.partitions()));
                faults.addAll(faults(next));
                boolean fresh = target.values().stream().allMatch(Map::isEmpty);
                movedByFallback += planned || fresh ? 0 : moved(next);
                crossing = crossing(next);
                target = next;
            }
            Collections.sort(micros);
            String owners = calls == 1 ? String.join("\",\"", owners()) : "";
            return "{\"calls\":" + calls + ",\"served\":" + served + ",\"faults\":" + faults.size() + ",\"fault\":\""
                + (faults.isEmpty() ? "" : faults.get(0).replace('"', '\'')) + "\",\"moved_by_fallback\":"
                + movedByFallback + ",\"crossing\":" + crossing + ",\"p50_micros\":" + at(micros, 0.5) + ",\"p99_micros\":"
                + at(micros, 0.99) + ",\"worst_micros\":" + at(micros, 1.0) + ",\"reason\":\""
                + attribute(assignor, "LastFallback").toString().replace('"', '\'') + "\",\"owners\":["
                + (owners.isEmpty() ? "" : '"' + owners + '"') + "]}";
        }

        /** The owner of each partition of one topic after the other. */
        private String[] owners() {
            String[] found = new String[TOPICS * partitions];
            target.forEach((member, held) -> held.forEach((topic, numbers) -> numbers.forEach(
                partition -> found[(int) topic.getLeastSignificantBits() * partitions + partition] = member)));
            return found;
        }

        private static long at(List<Long> sorted, double share) {
            return sorted.isEmpty() ? -1 : sorted.get((int) Math.min(sorted.size() - 1, share * sorted.size()));
        }

        private static long plans(BellwetherAssignor assignor) {
            return (Long) attribute(assignor, "Plans");
        }

        private static Object attribute(BellwetherAssignor assignor, String name) {
            try {
                return java.lang.management.ManagementFactory.getPlatformMBeanServer().getAttribute(
                    new javax.management.ObjectName("bellwether:type=assignor,name=" + assignor.name()), name);
            } catch (javax.management.JMException missing) {
                throw new IllegalStateException(missing);
            }
        }

        private GroupSpecImpl spec() {
            Map<String, MemberSubscriptionAndAssignmentImpl> said = new LinkedHashMap<>();
            Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
            members.forEach((member, number) -> {
                Map<Uuid, Set<Integer>> held = target.getOrDefault(member, Map.of());
                held.forEach((topic, numbers) -> numbers.forEach(
                    partition -> owners.computeIfAbsent(topic, any -> new HashMap<>()).put(partition, member)));
                said.put(member, new MemberSubscriptionAndAssignmentImpl(
                    Optional.of(racks[number % racks.length]), Optional.empty(), topics(), new Assignment(held)));
            });
            return new GroupSpecImpl(said, SubscriptionType.HOMOGENEOUS, owners);
        }

        private static Set<Uuid> topics() {
            Set<Uuid> found = new HashSet<>();
            for (int t = 0; t < TOPICS; t++) {
                found.add(new Uuid(1, t));
            }
            return found;
        }

        /** What is wrong: each member must be named, and each partition must have one owner. */
        private List<String> faults(Map<String, Map<Uuid, Set<Integer>>> plan) {
            List<String> found = new ArrayList<>();
            if (!plan.keySet().equals(members.keySet())) {
                found.add("the members are not those of the group");
            }
            Map<String, Integer> times = new HashMap<>();
            plan.values().forEach(held -> held.forEach((topic, numbers) -> numbers.forEach(
                partition -> times.merge(topic + "-" + partition, 1, Integer::sum))));
            if (times.size() != TOPICS * partitions || times.values().stream().anyMatch(count -> count != 1)) {
                found.add(times.size() + " of " + TOPICS * partitions + " partitions have an owner, or one has two");
            }
            return found;
        }

        /** Partitions that a member who is still there has lost. */
        private int moved(Map<String, Map<Uuid, Set<Integer>>> plan) {
            int[] count = {0};
            target.forEach((member, held) -> held.forEach((topic, numbers) -> numbers.forEach(partition -> {
                if (members.containsKey(member)
                    && !plan.getOrDefault(member, Map.of()).getOrDefault(topic, Set.of()).contains(partition)) {
                    count[0]++;
                }
            })));
            return count[0];
        }

        private int crossing(Map<String, Map<Uuid, Set<Integer>>> plan) {
            int[] count = {0};
            plan.forEach((member, held) -> held.forEach((topic, numbers) -> numbers.forEach(partition -> {
                if (!racksForPartition(topic, partition).contains(racks[members.get(member) % racks.length])) {
                    count[0]++;
                }
            })));
            return count[0];
        }

        @Override
        public int numPartitions(Uuid topic) {
            return partitions;
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of(racks[partition % racks.length]);
        }
    }
}
