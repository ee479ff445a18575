"""Printed figures of Xie et al. (2024), table 2: accuracy, I(S;Z) in bits, gaps, accuracy of S."""

from __future__ import annotations

MEASURES = ("accuracy", "information", "parity", "odds", "attack")
# Ours at epsilon = 5.
PUBLISHED: dict[tuple[str, str], tuple[float, ...]] = {
    ("adult", "con"): (0.82, 0.03, 0.12, 0.06, 0.61),
    ("adult", "dis"): (0.78, 0.02, 0.05, 0.03, 0.61),
    ("compas", "con"): (0.64, 0.05, 0.15, 0.14, 0.52),
    ("compas", "dis"): (0.63, 0.06, 0.11, 0.12, 0.51),
    ("hsls", "con"): (0.68, 0.01, 0.12, 0.09, 0.53),
    ("hsls", "dis"): (0.67, 0.01, 0.09, 0.08, 0.52),
}
# The comparators without / with noise at epsilon = 8; a star marks the share of the larger class,
# a dash what is not printed or not legible in our copy. LAFTR has no row.
BASELINES: dict[tuple[str, str], tuple[str, ...]] = {
    ("adult", "raw"): (".85 / .76*", "– / –", ".18 / –", ".07 / –", ".84 / –"),
    ("adult", "cfair"): (".80 / .79", ".06 / .04", ".24 / .14", ".06 / .04", ".63 / –"),
    ("adult", "ppvae"): (".79 / .76*", "– / –", ".08 / –", ".12 / –", ".66 / –"),
    ("adult", "ffvae"): (".76* / –", "– / –", "– / –", "– / –", "– / –"),
    ("adult", "cfb"): (".82 / .77", ".06 / .01", ".11 / .02", ".02 / –", ".64 / .61"),
    ("adult", "vfae"): (".78 / .76*", "– / –", ".06 / –", "– / –", ".71 / –"),
    ("compas", "raw"): (".67 / .55", ".30 / .27", ".23 / .04", ".23 / .04", ".69 / .63"),
    ("compas", "cfair"): (".67 / .62", ".10 / .11", ".31 / .19", ".32 / .20", ".67 / .56"),
    ("compas", "ppvae"): (".64 / .56", ".24 / .10", ".25 / .02", ".33 / .02", ".90 / .55"),
    ("compas", "ffvae"): (".54* / –", "– / –", "– / –", "– / –", "– / –"),
    ("compas", "cfb"): (".65 / .57", ".15 / .04", ".22 / .04", ".24 / .04", ".59 / .51"),
    ("compas", "vfae"): (".64 / .56", ".24 / .11", ".09 / –", ".13 / –", ".91 / .51"),
    ("hsls", "raw"): (".73 / .51", ".97 / .97", ".15 / .03", ".13 / .04", ".91 / .60"),
    ("hsls", "cfair"): (".51* / .51*", "– / –", "– / –", "– / –", "– / –"),
    ("hsls", "ppvae"): (".62 / .56", ".17 / .48", ".07 / –", ".06 / –", ".81 / .58"),
    ("hsls", "ffvae"): (".51* / –", "– / –", "– / –", "– / –", "– / –"),
    ("hsls", "cfb"): (".61 / .59", ".03 / .03", ".09 / .07", ".07 / –", ".54 / .53"),
    ("hsls", "vfae"): (".61 / .52*", "– / .07", ".05 / –", ".06 / –", ".75 / .53"),
}
