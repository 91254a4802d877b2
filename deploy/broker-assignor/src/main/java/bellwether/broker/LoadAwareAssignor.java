package bellwether.broker;

/** Plans by Bellwether's policy {@code load-aware}. */
public final class LoadAwareAssignor extends BellwetherAssignor {
    public LoadAwareAssignor() {
        super("bellwether-load-aware");
    }
}
