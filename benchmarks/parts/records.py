"""Builds, checks and counts."""

import collections

from parts.text import rows_of, table


def durations(results):
    def minutes(seconds):
        return "–" if seconds is None else f"{seconds // 60}:{seconds % 60:02d}"

    def verdict(row):
        if row["code"]:
            return f"failed, exit code {row['code']}"
        return "–" if row["limit"] is None else "kept" if row["seconds"] <= row["limit"] else "over"
    r = results.read("durations")
    rows = [(row["what"], minutes(row["seconds"]), minutes(row["limit"]), verdict(row), f"{100 * row['others']:.1f} %",
             f"{row['commit']}, {row['date']}") for row in r["rows"]]
    ends = [f"- {row['what']}: {'; '.join(row['ends'])}." for row in r["rows"] if row["ends"]]
    return ("Minutes and seconds, and the limit that is set. Each row is measured by itself, and what other processes used of "
            "the processors made it no shorter.\n\n"
            + table(["command", "took", "limit", "", "other processes", "commit, date"], rows)
            + "\n" + "\n".join(ends) + "\n"), {}


def portable_architectures(results):
    r = results.read("portable_architectures")
    columns = list(r["rows"][0])
    return "Instructions of all kernels together.\n\n" + table(
        columns, [[f"{row[c]:,}" if isinstance(row[c], int) else row[c] for c in columns] for row in r["rows"]]) + "".join(
            ["\n", *(f"- Refused: `{refused}`\n" for refused in r["refused"])] if r["refused"] else []), {}


def lines_of_code(results):
    r = results.read("lines_of_code")
    total = r["rows"][-1]
    missed = "" if total["now"] <= total["before"] else " Fewer than before were aimed at: missed."
    return f"C++ and CUDA, without comments and blank lines.{missed}\n\n" + table(
        ["folder", f"at {r['before']}", "now"],
        [(f"`{row['folder']}`", f"{row['before']:,}", f"{row['now']:,}") for row in r["rows"]]), {}


def sanitizers(results):
    r = results.read("sanitizers")
    rows = [(f"`{row['kind']}`", row["finds"], f"{row['build s']:,} s", f"{row['tests s']:,} s",
             f"{row['ran']} of {row['tests']}", row["reports"], len(row["failed"]), len(row["skipped within a test"]),
             f"{row['commit']}, {row['date']}" if "commit" in row else "–") for row in r["rows"]]
    text = table(["build", "finds", "built in", "tests in", "tests that ran", "reports", "failed", "skipped within",
                  "commit, date"], rows)

    def named(what):
        """What all builds have in common once, then what is of one alone."""
        same = [name for name in r["rows"][0][what] if all(name in row[what] for row in r["rows"])]
        yield "of all", same
        for row in r["rows"]:
            yield f"of `{row['kind']}`", [name for name in row[what] if name not in same]
    for row in r["rows"]:
        text += "".join(f"\nFailed in `{row['kind']}`: `{name}` ({reason})\n" for name, reason in row["failed"].items())
    for what in ("not run", "skipped within a test"):
        for whose, names in named(what):
            suites = collections.Counter(name.partition(".")[0] for name in names)
            text += f"\n{what.capitalize()}, {whose}, {len(names)}: " if names else ""
            text += ", ".join(f"{suite} ({count})" if count > 1 else suite for suite, count in suites.items())
            text += "\n" if names else ""
    return text, {}


PARTS = {"durations": durations, "sanitizers": sanitizers, "lines_of_code": lines_of_code,
         "portable_architectures": portable_architectures, "smallest_program": rows_of("smallest_program", ""),
         "own_ops": rows_of("own_ops", "A library of pointwise entries with their derivatives, compiled in release.\n\n"),
         "aten_files": rows_of("aten_files", "PyTorch's `native_functions.yaml` and `derivatives.yaml`.\n\n"),
         "reference_site": rows_of("reference_site", "`make docs`.\n\n"),
         "build_cost": rows_of("build_cost", "A clean build is to take at most 300 s on two cores.\n\n"),
         "build_cuda": rows_of("build_cuda", "")}
