package bellwether.broker;

/** Plans by Bellwether's policy {@code sticky-min-churn}. */
public final class StickyMinChurnAssignor extends BellwetherAssignor {
    public StickyMinChurnAssignor() {
        super("bellwether-sticky-min-churn");
    }
}
