"""What DECKLE_CPU changes: a process for each instruction set, one that chooses itself and PyTorch's, in turns."""

import statistics

from harness import report

CHOSEN, PEER = "chosen", "pytorch"  # beside the sets that are forced
FLAGS = {"amx_bf16": "amx_bf16", "avx512_bf16": "avx512_bf16", "avx512": "avx512f", "avx2": "avx2"}


def forced():
    """The values of DECKLE_CPU that this processor has instructions for, strongest first."""
    return [name for name, flag in FLAGS.items() if flag in report.flags()]


def measure(sides, asked, turns, budget):
    """The rates of each turn of `sides`, contenders by name, of each (figure, request). The order turns round with every turn."""
    figures = []
    for figure, request in asked:
        rates = {name: [] for name in sides}
        for number in range(budget.rounds(turns)):
            for name in list(sides)[::-1 if number % 2 else 1]:
                rates[name].append(sides[name].ask(request)["gflops"])
        figures.append({**figure, "rates": rates})
        print(figure, {name: round(statistics.median(found), 1) for name, found in rates.items()}, flush=True)
    return figures
