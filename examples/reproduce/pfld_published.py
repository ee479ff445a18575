"""Table 2 of the PF-LD paper: accuracy and fairness violation, epsilon = 1, delta = 1e-5.

Means and standard deviations over five folds. The violation is the largest difference
between two groups. The paper calls its own model DF-LP there.
"""

from __future__ import annotations

NOTIONS = ("accuracy_parity", "demographic_parity", "equalized_odds")
METHODS = ("clf", "z", "a", "m", "pfld")

# data set, notion -> for each of METHODS (accuracy, its std, violation, its std).
TABLE_2: dict[tuple[str, str], dict[str, tuple[float, float, float, float]]] = {}


def _row(dataset: str, notion: str, *cells: tuple[float, float, float, float] | None) -> None:
    TABLE_2[dataset, notion] = {
        method: cell for method, cell in zip(METHODS, cells, strict=True) if cell is not None
    }


_row("bank", "accuracy_parity",
     (0.800, 0.007, 0.041, 0.021), (0.801, 0.005, 0.025, 0.015), (0.808, 0.004, 0.006, 0.004),
     (0.799, 0.007, 0.036, 0.019), (0.812, 0.004, 0.021, 0.009))  # fmt: skip
_row("bank", "demographic_parity",
     (0.800, 0.007, 0.299, 0.034), (0.780, 0.009, 0.030, 0.021), (0.772, 0.010, 0.030, 0.017),
     (0.784, 0.008, 0.131, 0.048), (0.793, 0.013, 0.126, 0.027))  # fmt: skip
_row("bank", "equalized_odds",
     (0.800, 0.007, 0.239, 0.046), (0.791, 0.006, 0.113, 0.054), (0.764, 0.007, 0.125, 0.055),
     (0.796, 0.006, 0.252, 0.103), (0.808, 0.004, 0.188, 0.076))  # fmt: skip
_row("income", "accuracy_parity",
     (0.848, 0.003, 0.114, 0.005), (0.848, 0.004, 0.114, 0.007), (0.834, 0.005, 0.093, 0.006),
     (0.842, 0.004, 0.110, 0.006), (0.782, 0.008, 0.061, 0.019))  # fmt: skip
_row("income", "demographic_parity",
     (0.848, 0.003, 0.181, 0.007), (0.827, 0.019, 0.039, 0.012), (0.789, 0.031, 0.044, 0.053),
     (0.792, 0.035, 0.063, 0.054), (0.799, 0.002, 0.019, 0.009))  # fmt: skip
_row("income", "equalized_odds",
     (0.848, 0.003, 0.094, 0.013), (0.842, 0.003, 0.102, 0.022), (0.840, 0.003, 0.042, 0.005),
     (0.837, 0.002, 0.064, 0.014), (0.841, 0.003, 0.044, 0.006))  # fmt: skip
_row("compas", "accuracy_parity",
     (0.683, 0.011, 0.024, 0.014), (0.677, 0.013, 0.016, 0.008), (0.675, 0.013, 0.033, 0.022),
     (0.661, 0.019, 0.016, 0.012), (0.671, 0.015, 0.031, 0.029))  # fmt: skip
_row("compas", "demographic_parity",
     (0.683, 0.011, 0.121, 0.022), (0.634, 0.017, 0.023, 0.012), (0.643, 0.014, 0.048, 0.023),
     (0.664, 0.014, 0.092, 0.032), (0.667, 0.015, 0.098, 0.037))  # fmt: skip
_row("compas", "equalized_odds",
     (0.683, 0.011, 0.118, 0.038), (0.647, 0.011, 0.049, 0.033), (0.662, 0.019, 0.097, 0.044),
     (0.670, 0.013, 0.139, 0.036), (0.677, 0.015, 0.115, 0.040))  # fmt: skip
_row("m-bank3", "accuracy_parity",
     (0.807, 0.008, 0.064, 0.021), None, (0.813, 0.005, 0.037, 0.012),
     (0.817, 0.009, 0.040, 0.032), (0.827, 0.007, 0.033, 0.007))  # fmt: skip
_row("m-bank3", "demographic_parity",
     (0.807, 0.008, 0.317, 0.035), None, (0.771, 0.008, 0.067, 0.026),
     (0.797, 0.006, 0.261, 0.085), (0.811, 0.008, 0.218, 0.033))  # fmt: skip
_row("m-bank3", "equalized_odds",
     (0.807, 0.008, 0.244, 0.070), None, (0.783, 0.004, 0.199, 0.054),
     (0.808, 0.010, 0.348, 0.133), (0.825, 0.006, 0.279, 0.082))  # fmt: skip
_row("m-bank5", "accuracy_parity",
     (0.807, 0.008, 0.078, 0.013), None, (0.809, 0.007, 0.055, 0.018),
     (0.814, 0.008, 0.059, 0.009), (0.827, 0.007, 0.046, 0.008))  # fmt: skip
_row("m-bank5", "demographic_parity",
     (0.807, 0.008, 0.341, 0.034), None, (0.757, 0.015, 0.091, 0.028),
     (0.774, 0.011, 0.336, 0.047), (0.805, 0.009, 0.193, 0.035))  # fmt: skip
_row("m-bank5", "equalized_odds",
     (0.807, 0.008, 0.271, 0.068), None, (0.785, 0.011, 0.214, 0.045),
     (0.800, 0.008, 0.400, 0.117), (0.823, 0.007, 0.297, 0.084))  # fmt: skip
