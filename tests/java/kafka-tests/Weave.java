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

/**
 * Writes classes with the names of Kafka's assignors and codecs, in which those methods ask us that Kafka's tests call; put
 * before Kafka's jars on the class path, they are what the tests test. All else in them is Kafka's. Argument: a folder.
 */
public final class Weave {
    private static final String CONSUMER = "org.apache.kafka.clients.consumer.";
    private static final String STREAMS = "org.apache.kafka.streams.processor.internals.assignment.";

    private Weave() {}

    public static void main(String[] arguments) throws IOException {
        File folder = new File(arguments[0]);
        ElementMatcher<MethodDescription> plan = named("assignPartitions").and(takesArguments(2));
        ElementMatcher<MethodDescription> simple = named("assign").and(takesArguments(2));
        write(folder, CONSUMER + "RangeAssignor", Advice.to(Consumers.Assign.class).on(plan));
        write(folder, CONSUMER + "RoundRobinAssignor", Advice.to(Consumers.Assign.class).on(simple));
        write(folder, CONSUMER + "CooperativeStickyAssignor", Advice.to(Consumers.Assign.class).on(plan));
        write(
            folder,
            CONSUMER + "internals.AbstractStickyAssignor",
            Advice.to(Consumers.Assign.class).on(plan),
            Advice.to(Consumers.Sticky.class).on(named("isSticky")));
        for (String assignor : new String[] {"HighAvailability", "LegacySticky", "FallbackPrior"}) {
            write(folder, STREAMS + assignor + "TaskAssignor",
                Advice.to(Tasks.Assign.class).on(named("assign").and(takesArguments(5))));
        }
        for (String codec : new String[] {"AssignmentInfo", "SubscriptionInfo"}) {
            write(
                folder,
                STREAMS + codec,
                Advice.to(Codecs.Encode.class).on(named("encode").and(takesArguments(0))),
                Advice.to(Codecs.Decode.class).on(named("decode").and(takesArguments(1))));
        }
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
