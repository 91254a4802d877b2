package org.apache.kafka.streams;

import java.util.Properties;

/**
 * Stands before Kafka's class of this name on the class path: prints the topology that a program has built, and ends the
 * JVM. Programs of Kafka's system tests build theirs inside main, so nothing else sees it.
 */
public class KafkaStreams {
    public KafkaStreams(final Topology topology, final Properties config) {
        System.out.println("DESCRIPTION");
        System.out.println(topology.describe());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    public KafkaStreams(final Topology topology, final Properties config, final KafkaClientSupplier clients) {
        this(topology, config);
    }

    public KafkaStreams(final Topology topology, final StreamsConfig config) {
        this(topology, new Properties());
    }
}
