package bellwether.broker;

import java.io.IOException;
import java.nio.ByteBuffer;

/** A group for which a link asks for a plan. */
interface Question {
    /** What a plan is made from, as bytes behind their number (docs/internals/wire-formats.md#plans-for-brokers). */
    ByteBuffer request(int kind, String assignor, int number) throws IOException;

    /** What is wrong with a plan, or null. */
    String fault(int[] plan);
}
