"""Bar charts as SVG: ours, the peer's, and the limit, readable at a glance and without a script."""

from xml.sax.saxutils import escape

OURS, PEER, LIMIT, TEXT, FAINT = "#1f6feb", "#9aa4af", "#d1242f", "#24292f", "#57606a"
ROW, GAP, LABEL, BAR, VALUE, FONT = 15, 8, 200, 330, 62, 12


def text(x, y, words, anchor="start", color=TEXT, size=FONT, weight="normal"):
    return (f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}" font-size="{size}" font-weight="{weight}">'
            f"{escape(words)}</text>")


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def panel(left, top, title, groups, limit):
    """One chart: `groups` of (label, [(value, color)]) on one linear scale; `limit` is (value, name) or None. Returns its
    elements and its height."""
    largest = max([value for _, bars in groups for value, _ in bars] + ([limit[0]] if limit else []))
    scale, y, out = BAR / largest, top + 34, [text(left, top + 14, title, weight="bold")]
    for label, bars in groups:
        middle = y + ROW * len(bars) / 2 + FONT / 3
        out.append(text(left + LABEL - 8, middle, label, "end"))
        for value, color in bars:
            out.append(f'<rect x="{left + LABEL:g}" y="{y + 1:g}" width="{max(1, value * scale):.1f}" height="{ROW - 2}" '
                       f'fill="{color}"/>')
            out.append(text(left + LABEL + value * scale + 5, y + ROW - 3, number(value), color=FAINT, size=FONT - 1))
            y += ROW
        y += GAP
    if limit:
        x = left + LABEL + limit[0] * scale
        out.append(f'<line x1="{x:.1f}" y1="{top + 26}" x2="{x:.1f}" y2="{y - GAP + 2:g}" stroke="{LIMIT}" stroke-width="1.5" '
                   'stroke-dasharray="5 3"/>')
        out.append(text(x, top + 23, f"{limit[1]} {number(limit[0])}", "middle" if limit[0] < 0.8 * largest else "end", LIMIT,
                        FONT - 1))
    return out, y - top + 10


def chart(title, unit, panels, legend, source):
    """`panels`: (title, groups, limit); two stand side by side. `legend`: (name, color)."""
    width = LABEL + BAR + VALUE
    columns = 2 if len(panels) > 1 else 1
    out, y = [], 62
    for first in range(0, len(panels), columns):
        heights = []
        for column, (name, groups, limit) in enumerate(panels[first:first + columns]):
            elements, height = panel(16 + column * width, y, name, groups, limit)
            out += elements
            heights.append(height)
        y += max(heights)
    head, x = [text(16, 24, f"{title}, {unit}", size=16, weight="bold")], 16
    for name, color in legend:
        head.append(f'<rect x="{x}" y="36" width="12" height="12" fill="{color}"/>')
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
