package bellwether.broker;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.function.IntPredicate;
import java.util.stream.Stream;
import org.apache.kafka.coordinator.group.api.streams.assignor.*;

/**
 * A group of the streams protocol as dense arrays. Members are sorted, and a task is one number: {@code first} of its
 * subtopology plus its partition. {@code owner} has the member that runs each task now, or NOBODY.
 *
 * <p>A plan is the member of each task, followed by a pair (member, task) for each standby.
 */
final class Tasks implements Question {
    private static final int NOBODY = Problem.NOBODY;
    private static final long UNKNOWN = -1;
    /** How the ids of members begin with which Bellwether makes a broker ask. They leave at once, and get nothing. */
    private static final String TEMPORARY = "bellwether-temporary-";

    private record Member(String id, String instance, String process, String rack, Map<String, String> tags) {}

    private record Subtopology(String id, int first, int size, boolean stateful) {}

    /** A standby or a warm-up of a task. */
    private record Copy(int member, int task) {}

    private record Offset(int member, int task, long offset) {}

    private final AssignmentConfigs configs;
    private final List<Member> members = new ArrayList<>();
    private final List<String> processes;
    private final int[] processOf;
    private final Map<String, Subtopology> subtopologies = new LinkedHashMap<>();
    private final Subtopology[] subtopologyOf;
    private final int[] owner;
    private final Set<Copy> standbys = new LinkedHashSet<>();
    private final Set<Copy> warmups = new LinkedHashSet<>();
    private final List<Offset> offsets = new ArrayList<>();
    private final long[] ends;

    private Tasks(GroupSpec group, TopologyDescriber topology) {
        this.configs = group.configs();
        for (String id : new TreeSet<>(group.memberIds())) {
            if (!id.startsWith(TEMPORARY)) {
                MemberAssignmentMetadata its = group.memberMetadata(id);
                members.add(new Member(id, its.instanceId().orElse(""), its.processId(), its.rackId().orElse(""),
                    new TreeMap<>(its.clientTags())));
            }
        }
        Map<String, Integer> positions = new LinkedHashMap<>();
        members.forEach(member -> positions.putIfAbsent(member.process(), positions.size()));
        this.processes = List.copyOf(positions.keySet());
        this.processOf = members.stream().mapToInt(member -> positions.get(member.process())).toArray();
        int total = 0;
        for (String id : topology.subtopologies()) {
            int size = topology.maxNumInputPartitions(id);
            subtopologies.put(id, new Subtopology(id, total, size, topology.isStateful(id)));
            total += size;
        }
        this.subtopologyOf = new Subtopology[total];
        subtopologies.values().forEach(its ->
            Arrays.fill(subtopologyOf, its.first(), its.first() + its.size(), its));
        this.owner = new int[total];
        this.ends = new long[total];
        Arrays.fill(owner, NOBODY);
        Arrays.fill(ends, UNKNOWN);
    }

    static Tasks of(GroupSpec group, TopologyDescriber topology) {
        Tasks made = new Tasks(group, topology);
        for (int m = 0; m < made.members.size(); m++) {
            made.hold(m, group.memberAssignmentState(made.members.get(m).id()));
        }
        return made;
    }

    /** Takes what a member has and reports, without tasks that the topology no longer has. */
    private void hold(int member, MemberAssignmentState its) {
        numbers(its.activeTasks()).forEach(task -> owner[task] = member);
        numbers(its.standbyTasks()).forEach(task -> standbys.add(new Copy(member, task)));
        numbers(its.warmupTasks()).forEach(task -> warmups.add(new Copy(member, task)));
        its.taskOffsets().forEach((id, of) -> of.forEach((partition, offset) ->
            number(id, partition).ifPresent(task -> offsets.add(new Offset(member, task, offset)))));
        its.taskEndOffsets().forEach((id, of) -> of.forEach((partition, offset) ->
            number(id, partition).ifPresent(task -> ends[task] = Math.max(ends[task], offset))));
    }

    private Stream<Integer> numbers(Map<String, Set<Integer>> tasks) {
        return tasks.entrySet().stream()
            .flatMap(its -> its.getValue().stream().flatMap(partition -> number(its.getKey(), partition).stream()));
    }

    private Optional<Integer> number(String subtopology, int partition) {
        return Optional.ofNullable(subtopologies.get(subtopology))
            .filter(its -> partition >= 0 && partition < its.size())
            .map(its -> its.first() + partition);
    }

    /**
     * What the group has, without warm-ups. A task without an owner goes to a member that has a copy of it, else to the
     * member with the fewest; a missing standby goes to a process without the task.
     */
    int[] kept() {
        if (members.isEmpty()) {
            return new int[0];
        }
        int[] active = owner.clone();
        int[] load = new int[members.size()];
        Arrays.stream(active).filter(member -> member != NOBODY).forEach(member -> load[member]++);
        for (int t = 0; t < active.length; t++) {
            if (active[t] == NOBODY) {
                int task = t;
                int copied = fewest(load, m -> isCopied(m, task));
                active[t] = copied == NOBODY ? fewest(load, m -> true) : copied;
                load[active[t]]++;
            }
        }
        List<Copy> placed = standbysBeside(active, load);
        int[] plan = Arrays.copyOf(active, active.length + 2 * placed.size());
        for (int i = 0; i < placed.size(); i++) {
            plan[active.length + 2 * i] = placed.get(i).member();
            plan[active.length + 2 * i + 1] = placed.get(i).task();
        }
        return plan;
    }

    private boolean isCopied(int member, int task) {
        Copy copy = new Copy(member, task);
        return standbys.contains(copy) || warmups.contains(copy);
    }

    /** Standbys that stay, then those that are missing. {@code load} is by member, and takes them too. */
    private List<Copy> standbysBeside(int[] active, int[] load) {
        BitSet occupied = new BitSet();  // by task, then process
        for (int task = 0; task < active.length; task++) {
            occupied.set(place(task, active[task]));
        }
        int[] missing = new int[active.length];
        for (int task = 0; task < missing.length; task++) {
            missing[task] = subtopologyOf[task].stateful() ? configs.numStandbyReplicas() : 0;
        }
        List<Copy> placed = new ArrayList<>();
        for (Copy copy : standbys) {
            if (missing[copy.task()] > 0 && !occupied.get(place(copy.task(), copy.member()))) {
                place(copy, placed, occupied, missing, load);
            }
        }
        for (int t = 0; t < missing.length; t++) {
            int task = t;
            int member = 0;
            while (missing[task] > 0 && member != NOBODY) {
                member = fewest(load, m -> !occupied.get(place(task, m)));
                if (member != NOBODY) {
                    place(new Copy(member, task), placed, occupied, missing, load);
                }
            }
        }
        return placed;
    }

    private void place(Copy copy, List<Copy> placed, BitSet occupied, int[] missing, int[] load) {
        placed.add(copy);
        occupied.set(place(copy.task(), copy.member()));
        missing[copy.task()]--;
        load[copy.member()]++;
    }

    /** One number for a task on the process of a member. */
    private int place(int task, int member) {
        return Math.addExact(Math.multiplyExact(task, processes.size()), processOf[member]);
    }

    private static int fewest(int[] load, IntPredicate allowed) {
        int found = NOBODY;
        for (int m = 0; m < load.length; m++) {
            if (allowed.test(m) && (found == NOBODY || load[m] < load[found])) {
                found = m;
            }
        }
        return found;
    }

    /** Each task must have one member, and a process at most one of the active task and its standbys. */
    @Override
    public String fault(int[] plan) {
        if (plan.length < owner.length || (plan.length - owner.length) % 2 != 0) {
            return "the plan has " + plan.length + " numbers for " + owner.length + " tasks";
        }
        BitSet occupied = new BitSet();
        for (int task = 0; task < owner.length; task++) {
            if (!isMember(plan[task])) {
                return "the plan gives task " + name(task) + " to no member";
            }
            occupied.set(place(task, plan[task]));
        }
        for (int i = owner.length; i < plan.length; i += 2) {
            int task = plan[i + 1];
            if (!isMember(plan[i]) || task < 0 || task >= owner.length || !subtopologyOf[task].stateful()) {
                return "the plan has a standby of no stateful task, or on no member";
            }
            if (occupied.get(place(task, plan[i]))) {
                return "the plan has task " + name(task) + " twice on one process";
            }
            occupied.set(place(task, plan[i]));
        }
        return null;
    }

    private boolean isMember(int number) {
        return number >= 0 && number < members.size();
    }

    private String name(int task) {
        return subtopologyOf[task].id() + "_" + (task - subtopologyOf[task].first());
    }

    GroupAssignment assignment(int[] plan) {
        Map<String, MemberAssignment> found = new HashMap<>();
        for (Member member : members) {
            found.put(member.id(), new MemberAssignment(new HashMap<>(), new HashMap<>()));
        }
        for (int task = 0; task < owner.length && !members.isEmpty(); task++) {
            add(found.get(members.get(plan[task]).id()).activeTasks(), task);
        }
        for (int i = owner.length; i < plan.length; i += 2) {
            add(found.get(members.get(plan[i]).id()).standbyTasks(), plan[i + 1]);
        }
        return new GroupAssignment(found);
    }

    private void add(Map<String, Set<Integer>> tasks, int task) {
        Subtopology its = subtopologyOf[task];
        tasks.computeIfAbsent(its.id(), any -> new LinkedHashSet<>()).add(task - its.first());
    }

    @Override
    public ByteBuffer request(int kind, String assignor, int number) throws IOException {
        List<String> racks = members.stream().map(Member::rack).filter(rack -> !rack.isEmpty()).distinct().toList();
        List<Map<String, String>> tags = members.stream().map(Member::tags).distinct().toList();
        List<Copy> copies = Stream.concat(standbys.stream(), warmups.stream()).toList();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        Problem.head(out, kind, assignor, number);
        out.writeInt(configs.numStandbyReplicas());
        Problem.texts(out, configs.rackAwareAssignmentTags());
        Problem.texts(out, racks);
        Problem.texts(out, processes);
        out.writeInt(tags.size());
        for (Map<String, String> of : tags) {
            Problem.texts(out, of.keySet());
            Problem.texts(out, of.values());
        }
        out.writeInt(subtopologies.size());
        for (Subtopology its : subtopologies.values()) {
            out.writeUTF(its.id());
            out.writeInt(its.size());
            out.writeByte(its.stateful() ? 1 : 0);
        }
        out.writeInt(members.size());
        for (int m = 0; m < members.size(); m++) {
            Member member = members.get(m);
            out.writeUTF(member.id());
            out.writeUTF(member.instance());
            out.writeInt(processOf[m]);
            out.writeInt(racks.indexOf(member.rack()));
            out.writeInt(tags.indexOf(member.tags()));
        }
        Problem.write(out, List.of(owner,
            copies.stream().mapToInt(Copy::member).toArray(), copies.stream().mapToInt(Copy::task).toArray(),
            offsets.stream().mapToInt(Offset::member).toArray(), offsets.stream().mapToInt(Offset::task).toArray()));
        for (long[] numbers : List.of(offsets.stream().mapToLong(Offset::offset).toArray(), ends)) {
            out.writeInt(numbers.length);
            for (long value : numbers) {
                out.writeLong(value);
            }
        }
        return ByteBuffer.wrap(bytes.toByteArray()).putInt(0, bytes.size() - Integer.BYTES);
    }
}
