package bellwether.broker;

/** Plans by Bellwether's policy {@code kafka}. */
public final class KafkaAssignor extends BellwetherAssignor {
    public KafkaAssignor() {
        super("bellwether-kafka");
    }
}
