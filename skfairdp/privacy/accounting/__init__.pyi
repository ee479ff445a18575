from .accountants import accountant_name
from .events import covering_event, events
from .plan_cost import compose, epsilon, epsilons

__all__ = ["accountant_name", "compose", "covering_event", "epsilon", "epsilons", "events"]
