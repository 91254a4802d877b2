package bellwether;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;

/**
 * What members send and get, by Kafka's own classes; where a member has many topics, whose names hash alike, those take
 * time by the square of topics, and the same bytes are written and read here.
 */
final class Blobs {
    private static final int TOPICS_MAX = 100;
    private static final short VERSION = 3;

    private Blobs() {}

    static byte[] write(Subscription of) {
        if (of.topics().size() > TOPICS_MAX) {
            return writeFast(of);
        }
        ByteBuffer buffer = ConsumerProtocol.serializeSubscription(of);
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    static List<TopicPartition> read(byte[] bytes) {
        ByteBuffer blob = ByteBuffer.wrap(bytes);
        return blob.getInt(Short.BYTES) > TOPICS_MAX
            ? readFast(blob)
            : new ArrayList<>(ConsumerProtocol.deserializeAssignment(blob).partitions());
    }

    private static byte[] writeFast(Subscription of) {
        Map<String, Collection<Integer>> owned = new TreeMap<>();
        of.ownedPartitions().forEach(p -> owned.computeIfAbsent(p.topic(), t -> new ArrayList<>()).add(p.partition()));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeShort(VERSION);
            TreeSet<String> topics = new TreeSet<>(of.topics());
            out.writeInt(topics.size());
            for (String topic : topics) {
                text(out, topic);
            }
            out.writeInt(of.userData() == null ? -1 : of.userData().remaining());
            if (of.userData() != null) {
                ByteBuffer data = of.userData().duplicate();
                byte[] copy = new byte[data.remaining()];
                data.get(copy);
                out.write(copy);
            }
            out.writeInt(owned.size());
            for (var topic : owned.entrySet()) {
                text(out, topic.getKey());
                out.writeInt(topic.getValue().size());
                for (int partition : topic.getValue()) {
                    out.writeInt(partition);
                }
            }
            out.writeInt(of.generationId().orElse(AbstractStickyAssignor.DEFAULT_GENERATION));
            if (of.rackId().isPresent()) {
                text(out, of.rackId().get());
            } else {
                out.writeShort(-1);
            }
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
        return bytes.toByteArray();
    }

    private static void text(DataOutputStream out, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        out.writeShort(bytes.length);
        out.write(bytes);
    }

    private static List<TopicPartition> readFast(ByteBuffer blob) {
        List<TopicPartition> partitions = new ArrayList<>();
        blob.getShort();
        for (int topics = blob.getInt(); topics > 0; topics--) {
            byte[] name = new byte[blob.getShort()];
            blob.get(name);
            String topic = new String(name, StandardCharsets.UTF_8);
            for (int left = blob.getInt(); left > 0; left--) {
                partitions.add(new TopicPartition(topic, blob.getInt()));
            }
        }
        return partitions;
    }
}
