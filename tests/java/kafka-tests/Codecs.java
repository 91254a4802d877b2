package bellwether;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.Base64;
import net.bytebuddy.asm.Advice;

/** AssignmentInfo and SubscriptionInfo: all bytes that Java writes or reads were decoded and encoded by us before. */
public final class Codecs {
    private Codecs() {}

    public static ByteBuffer through(String message, ByteBuffer buffer) {
        ByteBuffer whole = buffer.duplicate();
        whole.rewind();
        byte[] bytes = new byte[whole.remaining()];
        whole.get(bytes);
        ObjectNode question = Ask.JSON.createObjectNode()
            .put("message", message.substring(message.lastIndexOf('.') + 1))
            .put("bytes", Base64.getEncoder().encodeToString(bytes));
        return ByteBuffer.wrap(Base64.getDecoder().decode(Ask.ask("codec", question).get("bytes").asText()));
    }

    /** Woven around encode. */
    public static final class Encode {
        private Encode() {}

        @Advice.OnMethodExit
        static void exit(@Advice.Origin("#t") String message, @Advice.Return(readOnly = false) ByteBuffer returned) {
            returned = Codecs.through(message, returned);
        }
    }

    /** Woven around decode. */
    public static final class Decode {
        private Decode() {}

        @Advice.OnMethodEnter
        static void enter(
            @Advice.Origin("#t") String message, @Advice.Argument(value = 0, readOnly = false) ByteBuffer data) {
            data = Codecs.through(message, data);
        }
    }
}
