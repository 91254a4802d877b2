package bellwether;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.io.File;
import java.io.IOException;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.pool.TypePool;
import org.apache.kafka.streams.processor.internals.assignment.Placing;
import org.apache.kafka.streams.processor.internals.assignment.Seeds;
import org.apache.kafka.streams.processor.internals.assignment.Tasks;

/**
 * Writes classes with the names of Kafka's assignors and codecs, in which those methods ask us that Kafka's tests call; put
 * before Kafka's jars on the class path, they are what the tests test. All else in them is Kafka's. Argument: a folder.
 */
public final class Weave {
    private static final String CONSUMER = "org.apache.kafka.clients.consumer.";
    private static final String STREAMS = "org.apache.kafka.streams.processor.internals.assignment.";
    private static final String API = "org.apache.kafka.streams.processor.assignment.";

    private Weave() {}

    public static void main(String[] arguments) throws IOException {
        File folder = new File(arguments[0]);
        ElementMatcher<MethodDescription> plan = of("assignPartitions", 2);
        ElementMatcher<MethodDescription> simple = of("assign", 2);
        write(folder, CONSUMER + "RangeAssignor", Advice.to(Consumers.Assign.class).on(plan));
        write(folder, CONSUMER + "RoundRobinAssignor", Advice.to(Consumers.Assign.class).on(simple));
        write(folder, CONSUMER + "CooperativeStickyAssignor", Advice.to(Consumers.Assign.class).on(plan));
        write(
            folder,
            CONSUMER + "internals.AbstractStickyAssignor",
            Advice.to(Consumers.Assign.class).on(plan),
            Advice.to(Consumers.Sticky.class).on(named("isSticky")));
        for (String assignor : new String[] {"HighAvailability", "LegacySticky", "FallbackPrior"}) {
            write(folder, STREAMS + assignor + "TaskAssignor", Advice.to(Tasks.Assign.class).on(of("assign", 5)));
        }
        write(
            folder,
            STREAMS + "RackAwareTaskAssignor",
            Advice.to(Placing.Actives.class).on(of("optimizeActiveTasks", 4)),
            Advice.to(Placing.Standbys.class).on(of("optimizeStandbyTasks", 4)));
        write(
            folder,
            STREAMS + "ClientTagAwareStandbyTaskAssignor",
            Advice.to(Placing.Spread.class).on(of("assign", 4)),
            Advice.to(Placing.Movable.class).on(of("isAllowedTaskMovement", 2)),
            Advice.to(Placing.TaskMovable.class).on(of("isAllowedTaskMovement", 4)));
        write(
            folder,
            STREAMS + "TaskMovement",
            Advice.to(Placing.ActiveMovements.class).on(of("assignActiveTaskMovements", 5)));
        write(
            folder,
            STREAMS + "TaskAssignorConvergenceTest",
            Advice.to(Seeds.Begin.class).on(of("beforeClass", 0)),
            Advice.to(Seeds.Scenario.class).on(of("runRandomizedScenario", 2)));
        write(
            folder,
            API + "TaskAssignmentUtils",
            Advice.to(Utils.Identity.class).on(of("identityAssignment", 1)),
            Advice.to(Utils.Standbys.class).on(of("defaultStandbyTaskAssignment", 2)),
            Advice.to(Utils.RackActives.class).on(of("optimizeRackAwareActiveTasks", 2)),
            Advice.to(Utils.RackStandbys.class).on(of("optimizeRackAwareStandbyTasks", 2)),
            Advice.to(Utils.Validate.class).on(of("validateTaskAssignment", 2)));
        write(folder, API + "assignors.StickyTaskAssignor", Advice.to(Utils.Sticky.class).on(of("assign", 1)));
        for (String codec : new String[] {"AssignmentInfo", "SubscriptionInfo"}) {
            write(
                folder,
                STREAMS + codec,
                Advice.to(Codecs.Encode.class).on(of("encode", 0)),
                Advice.to(Codecs.Decode.class).on(of("decode", 1)));
        }
    }

    private static ElementMatcher<MethodDescription> of(String name, int arguments) {
        return named(name).and(takesArguments(arguments));
    }

    private static void write(File folder, String name, net.bytebuddy.asm.AsmVisitorWrapper... woven)
        throws IOException {
        ClassFileLocator files = ClassFileLocator.ForClassLoader.ofSystemLoader();
        var type = new ByteBuddy().redefine(TypePool.Default.of(files).describe(name).resolve(), files);
        for (net.bytebuddy.asm.AsmVisitorWrapper one : woven) {
            type = type.visit(one);
        }
        type.make().saveIn(folder);
    }
}
