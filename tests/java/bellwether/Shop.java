package bellwether;

import java.time.Duration;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;

/** The example of docs/guides/export-a-topology.md, which has the method as it is here. */
public final class Shop {
    private Shop() {}

    static Topology topology(Properties properties) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> orders = builder.stream("orders");
        KStream<String, String> payments = builder.stream("payments");
        KTable<String, String> customers = builder.table("customers", Materialized.as("customers"));
        KTable<String, String> prices = builder.table("prices",
            Materialized.as(Stores.persistentVersionedKeyValueStore("prices", Duration.ofDays(7))));

        KStream<String, String> paid = orders.join(payments, (order, payment) -> order,
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofHours(1), Duration.ofMinutes(5)),
            StreamJoined.<String, String, String>as("paid").withName("paid"));
        paid.selectKey((id, order) -> customer(order)).repartition(Repartitioned.as("by-customer"))
            .leftJoin(customers, (order, customer) -> order + customer)
            .groupByKey().count(Materialized.as("orders-by-customer"));
        paid.selectKey((id, order) -> product(order)).repartition(Repartitioned.as("by-product"))
            .join(prices, (order, price) -> order + price,
                Joined.<String, String, String>as("priced").withGracePeriod(Duration.ofMinutes(5)))
            .to("priced");
        paid.groupBy((id, order) -> country(order), Grouped.as("by-country"))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofHours(1), Duration.ofMinutes(5)))
            .count(Materialized.as("hourly"));
        builder.<String, String>stream("clicks").groupByKey()
            .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMinutes(30)))
            .count(Materialized.as("sessions"));
        builder.<String, String>stream("returns").selectKey((id, item) -> product(item))
            .repartition(Repartitioned.<String, String>as("by-returned").withNumberOfPartitions(12))
            .groupByKey().count(Materialized.as("returned"));
        builder.stream(Pattern.compile("audit-[a-z]+")).to("audit");
        return builder.build(properties);
    }

    private static String customer(String order) {
        return order.substring(0, 1);
    }

    private static String product(String order) {
        return order.substring(1, 2);
    }

    private static String country(String order) {
        return order.substring(2, 3);
    }
}
