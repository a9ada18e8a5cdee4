"""What a peer's check of results keeps of many comparisons."""

import math


def worst(differences):
    """Of tuples (difference, ...) the first of the largest: a NaN, which `<` puts nowhere, is larger than all numbers."""
    return max(differences, key=lambda each: math.inf if math.isnan(each[0]) else each[0], default=None)
