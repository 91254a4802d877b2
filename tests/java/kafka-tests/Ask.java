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
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * The Python process that answers in the place of Kafka's assignors: a line of JSON there, a line back. The property
 * bellwether.python is its command, words separated by line ends; bellwether.compared is the file of comparisons.
 */
public final class Ask {
    static final ObjectMapper JSON = new ObjectMapper();
    private static BufferedWriter questions;
    private static BufferedReader answers;

    private Ask() {}

    static synchronized JsonNode ask(String about, ObjectNode question) {
        try {
            if (questions == null) {
                Process python = new ProcessBuilder(System.getProperty("bellwether.python").split("\n"))
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
                questions = new BufferedWriter(new OutputStreamWriter(python.getOutputStream(), StandardCharsets.UTF_8));
                answers = new BufferedReader(new InputStreamReader(python.getInputStream(), StandardCharsets.UTF_8));
            }
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

    /** Notes how our plan compares with Kafka's own for the same question; `worse` is empty where it is not worse. */
    static synchronized void compared(Object assignor, boolean same, String worse) {
        try {
            ObjectNode line = JSON.createObjectNode()
                .put("test", test())
                .put("assignor", assignor.getClass().getSimpleName())
                .put("same", same)
                .put("worse", worse);
            Files.writeString(
                Path.of(System.getProperty("bellwether.compared")),
                JSON.writeValueAsString(line) + "\n",
                StandardOpenOption.CREATE,
                StandardOpenOption.APPEND);
        } catch (IOException lost) {
            throw new UncheckedIOException(lost);
        }
    }

    /** The test method that is running, by its outermost frame in a class of tests. */
    private static String test() {
        return StackWalker.getInstance().walk(frames -> frames
            .filter(frame -> frame.getClassName().matches(".*Test(\\$.*)?"))
            .filter(frame -> !frame.getMethodName().startsWith("lambda$"))
            .reduce((inner, outer) -> outer)
            .map(StackWalker.StackFrame::getMethodName)
            .orElse(""));
    }
}
