package bellwether.broker;

/** Plans by Bellwether's policy {@code topic-balance}. */
public final class TopicBalanceAssignor extends BellwetherAssignor {
    public TopicBalanceAssignor() {
        super("bellwether-topic-balance");
    }
}
