"""Drawings: ragged layouts, and masks of attention. SVG whose colours are the style sheet's."""

LENGTHS = (3, 1, 4)  # the components of the example
CELL, GAP = 16, 10


def svg(width, height, parts, words):
    return (
        f'<svg class=picture viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{words}">'
        + "".join(parts)
        + "</svg>"
    )


def cell(x, y, kind="cell"):
    return f'<rect class="{kind}" x="{x + 0.5}" y="{y + 0.5}" width="{CELL - 1}" height="{CELL - 1}" rx="2"/>'


def text(x, y, words, anchor="start"):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'


def places(columns=3):
    """(component, row, column, x, y) of the elements of the example, its components side by side."""
    x = 0
    for component, length in enumerate(LENGTHS):
        for row in range(length):
            for column in range(columns):
                yield component, row, column, x + column * CELL, 22 + row * CELL
        x += columns * CELL + GAP + 8


def bracket(x, y, width):
    return f'<path class="bracket" d="M{x} {y}v5h{width}v-5"/>'


def rule(ragged):
    """What comes together when an op runs over the ragged dim."""
    width, height = 3 * (3 * CELL + GAP + 8), 22 + max(LENGTHS) * CELL + 8
    parts = [text(i * (3 * CELL + GAP + 8), 14, f"b = {i}") for i in range(3)]
    if "all elements" in ragged:
        parts += [cell(x, y, "hot") for *_, x, y in places()]
        words = "all elements together give one value"
    elif "row by row" in ragged:
        parts += [cell(x, y, "hot" if row % 2 == 0 else "cell") for _, row, _, x, y in places()]
        words = "each row by itself"
    elif "segment" in ragged or "ragged:" in ragged:
        parts += [cell(x, y, "hot" if column == 1 else "cell") for _, _, column, x, y in places()]
        for i, length in enumerate(LENGTHS):
            parts.append(bracket(i * (3 * CELL + GAP + 8) + CELL, 24 + length * CELL, CELL))
        words = "over the ragged dim: each component by itself"
    else:
        parts += [
            cell(x, y, "hot" if (component, row, column) == (2, 1, 1) else "cell") for component, row, column, x, y in places()
        ]
        words = "each element by itself"
    return f"<figure>{svg(width, height, parts, words)}<figcaption>{words[0].upper() + words[1:]}.</figcaption></figure>"


def layout():
    """A nested tensor: components, and the packed values that they are."""
    parts, y = [text(0, 12, "components"), text(150, 12, "values() [8, 3]"), text(262, 12, "offsets")], 22
    row = 0
    for component, length in enumerate(LENGTHS):
        kind = ("hot", "cell", "warm")[component]
        for i in range(length):
            for column in range(3):
                parts.append(cell(40 + column * CELL, 24 + row * CELL + component * 8, kind))
                parts.append(cell(150 + column * CELL, 36 + row * CELL, kind))
            row += 1
        top = 24 + (row - length) * CELL + component * 8
        parts.append(text(0, top + 12, f"b = {component}"))
        parts.append(text(262, 36 + (row - length) * CELL + 12, str(row - length)))
    parts.append(text(262, 36 + row * CELL + 4, str(row)))
    drawn = svg(300, 60 + row * CELL, parts, "three components packed into eight rows")
    return f"<figure>{drawn}<figcaption>Three components of 3, 1 and 4 rows, packed: no row is padding.</figcaption></figure>"


MASKS = (
    ("causal()", lambda i, j: j <= i),
    ("window(2, 0)", lambda i, j: i - 2 <= j <= i),
    ("prefix_lm(3)", lambda i, j: j <= i or j < 3),
    ("documents(ids)", lambda i, j: DOCUMENTS[i] == DOCUMENTS[j]),
    ("causal() && documents(ids)", lambda i, j: j <= i and DOCUMENTS[i] == DOCUMENTS[j]),
)
DOCUMENTS = (0, 0, 0, 1, 1, 2, 2, 2)


def masks():
    figures = []
    for title, allowed in MASKS:
        size = len(DOCUMENTS)
        parts = [cell(j * CELL, i * CELL, "hot" if allowed(i, j) else "cell") for i in range(size) for j in range(size)]
        drawn = svg(size * CELL, size * CELL, parts, f"the mask {title}")
        figures.append(f"<figure>{drawn}<figcaption><code>{title.replace('&', '&amp;')}</code></figcaption></figure>")
    return (
        f"<div class=gallery>{''.join(figures)}</div><p class=note>Rows are queries, columns keys; filled cells are computed.</p>"
    )


# How the colours of benchmarks/harness/svg.py are called in the style sheet.
PLOT_COLOURS = {
    "#1f6feb": "var(--accent)",
    "#9aa4af": "var(--faint)",
    "#d1242f": "var(--number)",
    "#24292f": "var(--ink)",
    "#57606a": "var(--soft)",
    "white": "none",
}


def plot(text, words):
    """A plot of benchmarks/results inside the page, in its colours."""
    for colour, name in PLOT_COLOURS.items():
        text = text.replace(f'="{colour}"', f'="{name}"')
    return text.replace("<svg ", f'<svg class=plot role="img" aria-label="{words}" ', 1)


# Pictures at the end of sections of guides: (Markdown file, anchor).
IN_GUIDES = {("docs/nested.md", "the-model"): layout, ("docs/attention.md", "masks"): masks}
