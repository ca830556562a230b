"""What all tests share."""

from hypothesis import HealthCheck, settings

# Right or wrong must not depend on how busy the machine is.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
