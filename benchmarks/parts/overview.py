"""Which workload was measured on which processor, and when."""

import json
import re

from harness.report import place
from parts.text import table


def shown(machine):
    """A machine's line in short: the maker, family and model, cores."""
    found = re.match(r"(\w+).*?\(family (\d+), model (\d+)\), (\d+)(?: of \d+)? cores", machine)
    return "{} {}/{}, {} cores".format(*found.groups()) + (", AMX" if ", AMX" in machine else "") if found else None


def overview(results):
    dates, machines = {}, {}
    for path in sorted(results.folder.rglob("*.json")):
        result = json.loads(path.read_text())
        machine = shown(result.get("machine", "")) if "NVIDIA" not in result.get("machine", "NVIDIA") else None
        if machine:
            dates.setdefault(path.stem, {})[machine] = result["date"][:10]
            machines[machine] = place(result["machine"])
    columns = sorted(machines, key=machines.get)
    return ("Processors by maker, family and model; what is measured on a GPU is of one NVIDIA H200 each.\n\n"
            + table(["result", *columns], [(f"`{name}`", *(of.get(machine, "–") for machine in columns))
                                           for name, of in sorted(dates.items())])), {}


PARTS = {"overview": overview}
