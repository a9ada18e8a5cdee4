"""Bar charts as SVG: ours, the peer's, and the limit, readable at a glance and without a script."""

import math
from xml.sax.saxutils import escape

OURS, PEER, LIMIT, TEXT, FAINT, GRID = "#1f6feb", "#9aa4af", "#d1242f", "#24292f", "#57606a", "#d8dee4"
ROW, GAP, BAR, VALUE, FONT = 15, 8, 330, 62, 12
LABEL, CHARACTER = 200, 7  # of labels the least width, and that of a letter in any sans-serif font
DASHES = 'stroke-width="1.5" stroke-dasharray="5 3"'


def text(x, y, words, anchor="start", color=TEXT, size=FONT, weight="normal"):
    return (f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}" font-size="{size}" font-weight="{weight}">'
            f"{escape(words)}</text>")


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Scale:
    """Where a value stands: from 0 on, or, of ratios, by their logarithms, with bars that start at 1."""

    def __init__(self, left, values, ratios):
        self.left, self.ratios, self.largest = left, ratios, max(values)
        self.least = min([1, *values]) if ratios else 0
        self.start = self.of(1) if ratios else left

    def of(self, value):
        if self.ratios:
            return self.left + BAR * math.log(value / self.least) / (math.log(self.largest / self.least) or 1)
        return self.left + BAR * value / self.largest

    def ticks(self):
        values = (digit * 10 ** power for power in range(-3, 7) for digit in (1, 2, 5)) if self.ratios else ()
        return [value for value in values if self.least <= value <= self.largest and value != 1]


def panel(left, top, title, groups, limit, label_width, ratios):
    """One chart: `groups` of (label, [(value, color)]) on one scale; `limit` is (value, name) or None. Returns its elements and
    its height."""
    values = [value for _, bars in groups for value, _ in bars] + ([limit[0]] if limit else [])
    scale, y, out = Scale(left + label_width, values, ratios), top + 34, []
    ends = top + 34 + sum(ROW * len(bars) + GAP for _, bars in groups) - GAP + 2
    for tick in scale.ticks():
        out.append(f'<line x1="{scale.of(tick):.1f}" y1="{top + 28}" x2="{scale.of(tick):.1f}" y2="{ends:g}" stroke="{GRID}"/>')
        out.append(text(scale.of(tick), ends + 11, f"{tick:g}", "middle", FAINT, FONT - 2))
    out.append(text(left, top + 14, title, weight="bold"))
    for label, bars in groups:
        middle = y + ROW * len(bars) / 2 + FONT / 3
        out.append(text(left + label_width - 8, middle, label, "end"))
        for value, color in bars:
            x, wide = min(scale.start, scale.of(value)), max(1, abs(scale.of(value) - scale.start))
            out.append(f'<rect x="{x:.1f}" y="{y + 1:g}" width="{wide:.1f}" height="{ROW - 2}" fill="{color}"/>')
            out.append(text(x + wide + 5, y + ROW - 3, number(value), color=FAINT, size=FONT - 1))
            y += ROW
        y += GAP
    if limit:
        x = scale.of(limit[0])
        out.append(f'<line x1="{x:.1f}" y1="{top + 26}" x2="{x:.1f}" y2="{ends:g}" stroke="{LIMIT}" {DASHES}/>')
        out.append(text(x, top + 23, f"{limit[1]} {number(limit[0])}", "middle" if x < scale.left + 0.8 * BAR else "end", LIMIT,
                        FONT - 1))
    return out, y - top + (22 if scale.ticks() else 10)


def chart(title, unit, panels, legend, source, ratios=False):
    """`panels`: (title, groups, limit); two stand side by side. `legend`: (name, color), a dashed line where it is the limit's.
    `ratios`: the scale is logarithmic, since they differ by orders of magnitude and 1/2 is as far from 1 as 2 is."""
    label_width = max(LABEL, 16 + CHARACTER * max(len(label) for _, groups, _ in panels for label, _ in groups))
    width = label_width + BAR + VALUE
    unit += ", logarithmic scale" if ratios else ""
    columns = 2 if len(panels) > 1 else 1
    out, y = [], 62
    for first in range(0, len(panels), columns):
        heights = []
        for column, (name, groups, limit) in enumerate(panels[first:first + columns]):
            elements, height = panel(16 + column * width, y, name, groups, limit, label_width, ratios)
            out += elements
            heights.append(height)
        y += max(heights)
    head, x = [text(16, 24, f"{title}, {unit}", size=16, weight="bold")], 16
    for name, color in legend:
        head.append(f'<line x1="{x + 6}" y1="34" x2="{x + 6}" y2="50" stroke="{color}" {DASHES}/>' if color == LIMIT else
                    f'<rect x="{x}" y="36" width="12" height="12" fill="{color}"/>')
        head.append(text(x + 17, 46, name))
        x += 17 + 8 * len(name) + 24  # wide enough for any sans-serif font
    for line in source.split("; ") if columns == 1 else [source]:
        out.append(text(16, y + 8, line, color=FAINT, size=10))
        y += 13
    y -= 13
    size = f"{32 + columns * width} {y + 20}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{size.split()[0]}" '
            f'font-family="Helvetica, Arial, sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(head + out) + "\n</svg>\n")
