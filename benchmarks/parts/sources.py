"""Figures that are typed by hand, and whether each has a source."""

import re
import subprocess

UNITS = (r"[GT]F(?:LOP)?/s|[GT]FLOPS\b|tok(?:ens?)?/s|[kMGT]i?B/s|[kMGT]i?B\b|ms\b|µs|us\b|ns\b|min\b|minutes\b|seconds?\b|%"
         r"|(?:per|a) second\b|bits (?:per|a) byte|bits/byte")
COUNT = r"(?:\d[\d.]*|two|three|four|five|six|seven|eight|nine|ten) times"
FIGURE = re.compile(
    rf"(?<!at most )(?<!up to )(?<!at least )\b(?P<number>\d[\d.,]*)\s?"
    rf"(?:{UNITS}|s\b|\w+ (?:per|a) second\b|[x×](?=[,.;:)]|$|\s+(?!\d|[a-zA-Z]\b)))"
    rf"|\b(?:{COUNT}|[Tt]wice|[Hh]alf) (?:as (?:fast|quick|slow)\b|(?:the|its|their) (?:speed|rate|time)\b)"
    rf"|\b{COUNT} (?:faster|slower|[A-Z]\w+'s)\b")
# What the figures of a table are, by its head.
SPEEDS = re.compile(rf"(?<![A-Za-z])(?:{UNITS})|\b(?:ratio|time|speed|rate|error)s?\b", re.I)
CELL = re.compile(rf"\W*(?P<number>\d[\d.,]*(?:e-?\d+)?)\s?(?:{UNITS}|[sx×])?\s?(?:\([^)]*\))?")
RACE = re.compile(r"\b(?P<number>\d[\d.,]*) against (?P<other>\d(?:[\d.,]*\d)?)")
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\d.]*[A-Za-z_])")
CODE, REGION = re.compile(r"`[^`\n]*`"), re.compile(r"<!-- figures: [\w/]+ -->\n.*?<!-- end of figures -->", re.S)
MACHINE, DATE = re.compile(r"\b(?:H200|EPYC|Xeon)\b"), re.compile(r"\b20\d\d-[01]\d-[0-3]\d\b")
COMMIT = re.compile(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,10}\b")
QUOTING = "docs/hopper.md"


def pages(root):
    """Every page of the tree."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True)
    names = listed.stdout.split("\n")[:-1] if listed.returncode == 0 else (path.relative_to(root) for path in root.rglob("*.md"))
    return sorted(path for path in map(root.joinpath, names) if path.exists())


def of_tables(lines):
    """(line, number, words) of cells of tables whose head, or the paragraph before it, names a unit."""
    kind = None
    for index, line in enumerate(lines):
        if not line.startswith("|"):
            continue
        cells = [CELL.fullmatch(cell.strip()) for cell in line.split("|")[2:-1]]
        if index == 0 or not lines[index - 1].startswith("|"):
            before = "\n".join(lines[:index]).rstrip().rpartition("\n\n")[2]
            kind = SPEEDS.search(line + re.sub(r"(?m)^[|#].*", "", before))
        elif kind and sum(map(bool, cells)) >= 2:
            yield from ((index, cell["number"], cell[0]) for cell in cells if cell)


def quotations(text):
    """(line, number, words) of the figures of a text: with a unit, in a race, or in a table. The number may be None."""
    lines = CODE.sub(lambda found: " " * len(found[0]), text).splitlines()
    for index, line in enumerate(lines):
        yield from ((index, found["number"], found[0]) for found in FIGURE.finditer(line))
        for found in RACE.finditer(line):
            yield from ((index, number, found[0]) for number in (found["number"], found["other"]))
    yield from of_tables(lines)


def holds(numbers, quoted, percent):
    """Whether a number, or a hundred times it of `percent`, is the quoted one when rounded as that is."""
    quoted = quoted.rstrip(".,").replace(",", "")
    value, places = float(quoted), len(quoted.partition(".")[2])
    return any(abs(scale * number - value) <= 0.5001 * 10 ** -places for number in numbers
               for scale in ((1, 100) if percent else (1,)))


def cites(text, results):
    """Whether a text says of which machine, commit and day its figures are."""
    return bool(MACHINE.search(text) and DATE.search(text) and any(
        not results.has_history() or results.git("merge-base", "--is-ancestor", commit, "HEAD") is not None
        for commit in COMMIT.findall(text)))


def check_sources(results):
    """Complains of figures without a source. The account of what was tried quotes them, rounded, from files that their section
    names; every other page, as of a folder, says of which machine, commit and day they are, in their section or at its head. The
    speeds of the documentation are not typed at all: make figures writes them."""
    files = {}
    for path in (path for kind in ("json", "md", "txt") for path in results.folder.rglob(f"*.{kind}")):
        files.setdefault(path.name, []).append(path)
    for page in pages(results.root):
        name, start = page.relative_to(results.root).as_posix(), 0
        text = REGION.sub(lambda found: "\n" * found[0].count("\n"), page.read_text())
        head = re.split(r"(?m)^(?=## )", text)[0]
        document = name.startswith("docs/") or "/" not in name
        for section in re.split(r"(?m)^(?=##? )", text):
            found, numbers, cited = sorted(quotations(section), key=lambda quoted: quoted[0]), [], False
            complaints = {}
            if found and name == QUOTING:
                named = {path for file in re.findall(r"\b\w+\.(?:json|md|txt)\b", section) for path in files.get(file, [])}
                numbers = [float(number.replace(",", "")) for path in named for number in NUMBER.findall(path.read_text())]
            elif found and (not document or "error" in section):
                cited = cites(head + section, results)
            for index, number, words in found:
                spoken = number is None or "e" not in number
                if name == QUOTING:
                    fine = number and holds(numbers, number, "%" in words)
                    way = "quote it from a file of benchmarks/results that the section names"
                elif document and spoken:
                    fine, way = False, "have it written by benchmarks/figures"
                else:
                    fine, way = cited, "say of which machine, commit and day it is"
                if not fine:
                    complaints[f"{name}:{start + index + 1}: '{words}' has no source: {way}"] = None
            yield from complaints
            start += section.count("\n")
