package bellwether.broker;

/** What JMX shows of an assignor as {@code bellwether:type=assignor,name=NAME}. Times are those of {@code assign}. */
public interface OutcomesMBean {
    long getPlans();

    long getFallbacks();

    String getLastFallback();

    double getTotalMs();

    double getMaxMs();
}
