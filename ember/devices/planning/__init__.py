"""Plans for models that are too large for one device: where each part goes, what is computed again
or kept on the host, and the schedule by which several devices work at a time."""

from ember.devices.planning.paper import Paper, Split, what_if
from ember.devices.planning.planner import Plan, plan

__all__ = ["Paper", "Plan", "Split", "plan", "what_if"]
