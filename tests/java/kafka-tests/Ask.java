package bellwether;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.function.Supplier;

/**
 * The Python process that answers in the place of Kafka's assignors: a line of JSON there, a line back. The property
 * bellwether.python is its command, words separated by line ends.
 */
public final class Ask {
    public static final ObjectMapper JSON = new ObjectMapper();

    /** Members or processes times partitions or tasks; beyond it Kafka's own assignors take up to minutes. */
    private static final long BESIDE_MAX = 2_500;

    private static final ThreadLocal<Boolean> KAFKA = ThreadLocal.withInitial(() -> false);
    private static BufferedWriter questions;
    private static BufferedReader answers;

    private Ask() {}

    public static synchronized JsonNode ask(String about, ObjectNode question) {
        try {
            if (questions == null) {
                Process python = new ProcessBuilder(System.getProperty("bellwether.python").split("\n"))
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
                questions = new BufferedWriter(new OutputStreamWriter(python.getOutputStream(), StandardCharsets.UTF_8));
                answers = new BufferedReader(new InputStreamReader(python.getInputStream(), StandardCharsets.UTF_8));
            }
            Report.asked();
            questions.write(JSON.writeValueAsString(question.put("about", about)) + "\n");
            questions.flush();
            JsonNode answer = JSON.readTree(answers.readLine());
            if (answer.has("error")) {
                throw new IllegalStateException("Bellwether: " + answer.get("error").asText());
            }
            return answer;
        } catch (IOException lost) {
            throw new UncheckedIOException(lost);
        }
    }

    /** Whether Kafka's own code is to answer: it is asked beside us. */
    public static boolean isKafkas() {
        return KAFKA.get();
    }

    /** What Kafka's own code answers to a question of this size, null where it fails and where it would take long. */
    public static <T> T kafkas(long size, Supplier<T> answer) {
        if (size > BESIDE_MAX) {
            return null;
        }
        boolean before = KAFKA.get();
        KAFKA.set(true);
        try {
            return answer.get();
        } catch (RuntimeException failed) {
            return null;
        } finally {
            KAFKA.set(before);
        }
    }
}
