package bellwether.broker;

/** Plans by Bellwether's policy {@code rack-first}. */
public final class RackFirstAssignor extends BellwetherAssignor {
    public RackFirstAssignor() {
        super("bellwether-rack-first");
    }
}
