package bellwether;

import bellwether.broker.BellwetherTaskAssignor;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
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
import java.util.TreeSet;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;

/**
 * Calls the assignor of tasks as a broker does, with its own classes, and checks each assignment. Arguments: properties
 * as name=value. Each line on stdin, "PROCESSES TASKS CALLS", is a group whose process leaves or joins before each call;
 * a line of JSON on stdout says what came of it.
 */
public final class TaskAssignorMain {
    private static final int THREADS = 2;
    private static final int STANDBYS = 1;
    private static final String STATEFUL = "0";
    private static final String STATELESS = "1";
    private static final String[] RACKS = {"az1", "az2", "az3"};

    private TaskAssignorMain() {}

    public static void main(String[] arguments) throws IOException {
        Map<String, String> properties = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        new BellwetherTaskAssignor();  // a broker makes several and calls one of them
        BellwetherTaskAssignor assignor = new BellwetherTaskAssignor();
        assignor.configure(properties);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Group> groups = new HashMap<>();
        System.out.println("{\"ready\":\"" + assignor.name() + "\"}");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split(" ");
            Group group = groups.computeIfAbsent(fields[0] + " " + fields[1],
                any -> new Group(Integer.parseInt(fields[0]), Integer.parseInt(fields[1]) / 2));
            System.out.println(group.called(assignor, Integer.parseInt(fields[2])));
        }
    }

    /** A task of one of the two subtopologies. */
    private record Task(String subtopology, int partition) {}

    /** A group between calls: processes by id with their number, and what members have. */
    private static final class Group implements TopologyDescriber {
        private final int size;
        private final int partitions;
        private final TreeMap<String, Integer> processes = new TreeMap<>();
        private Map<String, MemberAssignment> current = new HashMap<>();
        private int joined;

        Group(int size, int partitions) {
            this.size = size;
            this.partitions = partitions;
            while (joined < size) {
                join();
            }
        }

        private void join() {
            processes.put(String.format("00000000-0000-0000-0000-%012d", joined), joined);
            joined++;
        }

        private Map<String, String> members() {
            Map<String, String> processOf = new TreeMap<>();
            processes.forEach((process, number) -> {
                for (int thread = 0; thread < THREADS; thread++) {
                    processOf.put(String.format("member-%06d-%d", number, thread), process);
                }
            });
            return processOf;
        }

        String called(BellwetherTaskAssignor assignor, int calls) {
            List<String> faults = new ArrayList<>();
            List<Long> micros = new ArrayList<>();
            int served = 0;
            int movedByFallback = 0;
            int sameRack = 0;
            for (int call = 0; call < calls; call++) {
                if (processes.size() == size) {
                    processes.pollFirstEntry();
                } else {
                    join();
                }
                GroupSpecImpl spec = spec();
                long plansBefore = plans();
                long began = System.nanoTime();
                Map<String, MemberAssignment> plan;
                try {
                    plan = assignor.assign(spec, this).members();
                } catch (RuntimeException thrown) {
                    faults.add("threw " + thrown);
                    continue;
                }
                micros.add((System.nanoTime() - began) / 1000);
                boolean planned = plans() > plansBefore;
                served += planned ? 1 : 0;
                faults.addAll(faults(plan));
                movedByFallback += planned ? 0 : moved(plan);
                sameRack = sameRack(plan);
                current = plan;
            }
            Collections.sort(micros);
            return "{\"calls\":" + calls + ",\"served\":" + served + ",\"faults\":" + faults.size() + ",\"fault\":\""
                + (faults.isEmpty() ? "" : faults.get(0).replace('"', '\'')) + "\",\"moved_by_fallback\":"
                + movedByFallback + ",\"crossing\":" + sameRack + ",\"p50_micros\":" + at(micros, 0.5) + ",\"p99_micros\":"
                + at(micros, 0.99) + ",\"worst_micros\":" + at(micros, 1.0) + ",\"reason\":\""
                + attribute("LastFallback").toString().replace('"', '\'') + "\"}";
        }

        private static long at(List<Long> sorted, double share) {
            return sorted.isEmpty() ? -1 : sorted.get((int) Math.min(sorted.size() - 1, share * sorted.size()));
        }

        private static long plans() {
            return (Long) attribute("Plans");
        }

        private static Object attribute(String name) {
            try {
                return ManagementFactory.getPlatformMBeanServer()
                    .getAttribute(new ObjectName("bellwether:type=assignor,name=bellwether-tasks"), name);
            } catch (JMException missing) {
                throw new IllegalStateException(missing);
            }
        }

        private GroupSpecImpl spec() {
            Map<String, MemberMetadataAndStateImpl> members = new LinkedHashMap<>();
            members().forEach((member, process) -> {
                MemberAssignment its = current.getOrDefault(member, new MemberAssignment(Map.of(), Map.of()));
                String rack = RACKS[processes.get(process) % RACKS.length];
                members.put(member, new MemberMetadataAndStateImpl(Optional.empty(), Optional.of(rack), process,
                    Map.of("zone", rack), its.activeTasks(), its.standbyTasks(), Map.of(), Map.of(), Map.of()));
            });
            return new GroupSpecImpl(members, new AssignmentConfigsImpl(STANDBYS, List.of()));
        }

        private static Set<Task> tasks(Map<String, Set<Integer>> of) {
            Set<Task> found = new HashSet<>();
            of.forEach((subtopology, numbers) -> numbers.forEach(number -> found.add(new Task(subtopology, number))));
            return found;
        }

        /** What is wrong: each task must run once, and each with state must have its standbys on other processes. */
        private List<String> faults(Map<String, MemberAssignment> plan) {
            List<String> found = new ArrayList<>();
            Map<String, String> processOf = members();
            if (!plan.keySet().equals(processOf.keySet())) {
                found.add("the members are not those of the group");
                return found;
            }
            Map<Task, Set<String>> places = new HashMap<>();
            int active = 0;
            int copies = 0;
            for (Map.Entry<String, MemberAssignment> its : plan.entrySet()) {
                String process = processOf.get(its.getKey());
                for (Task task : tasks(its.getValue().activeTasks())) {
                    active++;
                    if (!places.computeIfAbsent(task, any -> new TreeSet<>()).add(process)) {
                        found.add(task + " is twice on " + process);
                    }
                }
                for (Task task : tasks(its.getValue().standbyTasks())) {
                    copies++;
                    if (!places.computeIfAbsent(task, any -> new TreeSet<>()).add(process)) {
                        found.add(task + " is twice on " + process);
                    }
                }
            }
            int wanted = partitions * Math.min(STANDBYS, processes.size() - 1);
            if (places.size() != 2 * partitions || active != 2 * partitions || copies != wanted) {
                found.add(active + " of " + 2 * partitions + " tasks, " + copies + " of " + wanted + " standbys");
            }
            return found;
        }

        /** Tasks and standbys that a member who is still there has lost. */
        private int moved(Map<String, MemberAssignment> plan) {
            int moved = 0;
            for (String member : members().keySet()) {
                MemberAssignment before = current.getOrDefault(member, new MemberAssignment(Map.of(), Map.of()));
                Set<Task> active = tasks(before.activeTasks());
                active.removeAll(tasks(plan.get(member).activeTasks()));
                Set<Task> standby = tasks(before.standbyTasks());
                standby.removeAll(tasks(plan.get(member).standbyTasks()));
                standby.removeAll(tasks(plan.get(member).activeTasks()));  // it runs what it had a copy of
                moved += active.size() + standby.size();
            }
            return moved;
        }

        /** Standbys in the rack of their active task. */
        private int sameRack(Map<String, MemberAssignment> plan) {
            Map<String, String> processOf = members();
            Map<Task, String> rackOf = new HashMap<>();
            plan.forEach((member, its) -> tasks(its.activeTasks()).forEach(task -> rackOf.put(task, rack(processOf, member))));
            int found = 0;
            for (Map.Entry<String, MemberAssignment> its : plan.entrySet()) {
                for (Task task : tasks(its.getValue().standbyTasks())) {
                    found += rack(processOf, its.getKey()).equals(rackOf.get(task)) ? 1 : 0;
                }
            }
            return found;
        }

        private String rack(Map<String, String> processOf, String member) {
            return RACKS[processes.get(processOf.get(member)) % RACKS.length];
        }

        @Override
        public List<String> subtopologies() {
            return List.of(STATEFUL, STATELESS);
        }

        @Override
        public int maxNumInputPartitions(String subtopology) {
            return partitions;
        }

        @Override
        public boolean isStateful(String subtopology) {
            return subtopology.equals(STATEFUL);
        }
    }
}
