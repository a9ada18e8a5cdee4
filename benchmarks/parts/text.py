"""Tables, pictures and means of a page."""

import math
import re


def table(columns, rows):
    right = [all(re.match(r"[\d.,–-]", str(row[i])) for row in rows) for i in range(len(columns))]
    lines = [columns, ["---:" if numeric else "---" for numeric in right], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def with_words(words, columns, rows):
    return words + "\n\n" + table(columns, rows)


def table_of(make, name):
    """A part that is a table of one result."""
    return lambda results: (with_words(*make(results.read(name))), {})


def rows_of(name, words):
    def part(results):
        r = results.read(name)
        return words + table(["what", "value", "unit"], [
            (row["what"], f"{row['value']:.1f}" if isinstance(row["value"], float) else row["value"], row["unit"])
            for row in r["rows"]]), {}
    return part


def picture(name, words):
    return f"![{words}](FOLDER/{name}.svg)\n"


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
