package org.apache.kafka.streams.processor.internals.assignment;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import net.bytebuddy.asm.Advice;

/** Kafka's convergence tests draw their scenarios by the clock; here each run draws the same ones in the same order. */
public final class Seeds {
    private static final Map<String, Long> DRAWN = new HashMap<>();

    private Seeds() {}

    public static long next(String strategy) {
        return DRAWN.merge(strategy, 1L, Long::sum);
    }

    /** Woven around beforeClass. */
    public static final class Begin {
        private Begin() {}

        @Advice.OnMethodExit
        static void exit(@Advice.FieldValue(value = "random", readOnly = false) Random random) {
            random = new Random(0);
        }
    }

    /** Woven around runRandomizedScenario. */
    public static final class Scenario {
        private Scenario() {}

        @Advice.OnMethodEnter
        static void enter(
            @Advice.Argument(value = 0, readOnly = false) long seed,
            @Advice.Argument(1) String strategy,
            @Advice.FieldValue(value = "random", readOnly = false) Random random) {
            seed = Seeds.next(strategy);
            random = new Random(seed);
        }
    }
}
