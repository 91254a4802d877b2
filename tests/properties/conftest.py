"""Property tests run on shared, noisy machines: no example has a deadline."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
