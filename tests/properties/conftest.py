"""Property tests run on shared, noisy machines: no example has a deadline, and none is drawn too slowly."""

from hypothesis import HealthCheck, settings

settings.register_profile("no-deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no-deadline")
