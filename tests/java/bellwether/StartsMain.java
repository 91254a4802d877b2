package bellwether;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * First starts of the application of StreamsMain, with many instances in one JVM that is warm, so that neither the start of
 * JVMs nor their number counts. Lines on stdin: "start N key=value ..." (words as the arguments of StreamsMain; each
 * instance has a state directory below `state.dir`) makes N instances and then starts them all at once; "stop" closes them.
 *
 * <p>JSON lines on stdout as StreamsMain has them, and "started", "failed" and "stopped". The end of input ends the JVM.
 */
public final class StartsMain {
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(30);
    private static final long POLL_MS = 10;

    private StartsMain() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        Thread watch = new Thread(StartsMain::watch, "watch");
        watch.setDaemon(true);
        watch.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        List<KafkaStreams> running = new ArrayList<>();
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                running = start(words);
            } else {
                stop(running);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static List<KafkaStreams> start(String[] words) {
        Map<String, String> settings = new TreeMap<>();
        for (int at = 2; at < words.length; at++) {
            int equals = words[at].indexOf('=');
            settings.put(words[at].substring(0, equals), words[at].substring(equals + 1));
        }
        List<KafkaStreams> instances = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(words[1]); number++) {
            Properties properties = new Properties();
            settings.forEach((key, value) -> {
                if (!key.startsWith("app.")) {
                    properties.put(key, value);
                }
            });
            properties.put("client.id", "instance-" + number);
            properties.put("state.dir", settings.get("state.dir") + "/" + number);
            KafkaStreams streams = new KafkaStreams(StreamsMain.topology(settings), properties);
            streams.setUncaughtExceptionHandler(error -> {
                StreamsMain.Report.line("failed", "\"text\":" + StreamsMain.Report.quoted(String.valueOf(error)));
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            instances.add(streams);
        }
        StreamsMain.Report.line("started", "");
        instances.forEach(KafkaStreams::start);
        return instances;
    }

    private static void stop(List<KafkaStreams> running) throws InterruptedException {
        List<Thread> closers = new ArrayList<>();
        for (KafkaStreams streams : running) {
            closers.add(new Thread(() -> streams.close(CLOSE_LIMIT)));
        }
        closers.forEach(Thread::start);
        for (Thread closer : closers) {
            closer.join();
        }
        StreamsMain.Report.progress();
        StreamsMain.Report.line("stopped", "");
    }

    private static void watch() {
        while (true) {
            StreamsMain.Report.progress();
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException ended) {
                return;
            }
        }
    }
}
