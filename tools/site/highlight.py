"""Code as HTML: colours by Pygments, and links from the names that have a page."""

import html
import re

import pygments
import pygments.formatters
import pygments.lexers
import pygments.util

FORMATTER = pygments.formatters.HtmlFormatter(nowrap=True)
NAME = re.compile(r'<span class="(n|nf|nc|kt)">(\w+)</span>')
ALIASES = {"": None, "text": None}


class Code:
    def __init__(self, links):
        self.links = links  # identifier or path of the repository -> path of the site
        self.lexers, self.seen = {}, {}

    def block(self, text, language, link):
        """`link` turns a path of the site into a link of the page."""
        text = text.rstrip("\n")
        coloured = self._coloured(text, language)
        return f"<pre><code>{self._linked(coloured, link) if language == 'cpp' else coloured}</code></pre>"

    def inline(self, text, link):
        words = html.escape(text, quote=False)
        target = self.target(text)
        return f'<a class=code href="{link(target)}"><code>{words}</code></a>' if target else f"<code>{words}</code>"

    def target(self, text):
        """Where `attention(q, k, v)`, `dk::Tensor` or `deckle/core` leads."""
        if text.rstrip("/") in self.links and ("/" in text or "." in text):
            return self.links[text.rstrip("/")]
        name = re.fullmatch(r"(?:(?:dk|deckle)::)?((?:\w+::)*~?\w+)(?:\(.*\))?", text, re.S)
        return self.links.get(name.group(1)) if name else None

    def _coloured(self, text, language):
        if language in ALIASES:
            return html.escape(text, quote=False)
        if (text, language) not in self.seen:
            if language not in self.lexers:
                try:
                    self.lexers[language] = pygments.lexers.get_lexer_by_name(language, stripnl=False)
                except pygments.util.ClassNotFound:
                    self.lexers[language] = pygments.lexers.TextLexer(stripnl=False)
            self.seen[text, language] = pygments.highlight(text, self.lexers[language], FORMATTER).rstrip("\n")
        return self.seen[text, language]

    def _linked(self, coloured, link):
        def linked(match):
            target = self.links.get(match.group(2))
            return f'<a class="{match.group(1)}" href="{link(target)}">{match.group(2)}</a>' if target else match.group(0)

        return NAME.sub(linked, coloured)


def wrapped(signature, columns=86):
    """A declaration on lines that fit, its parameters under each other."""
    head, bracket, rest = re.sub(r"\s+", " ", signature).partition("(")
    lines = [head + bracket]
    for part in re.split(r"(?<=,) (?![^{]*\})", rest):
        room = len(lines[-1]) + len(part) + 1 <= columns or lines[-1].endswith("(")
        lines[-1:] = (
            [lines[-1] + ("" if lines[-1].endswith("(") else " ") + part] if room else [lines[-1], " " * (len(head) + 1) + part]
        )
    return "\n".join(lines)


def prose(text, code, link):
    """A comment: paragraphs, and what is indented or in columns as it is."""
    parts = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        verbatim = sum(line.startswith("  ") or "   " in line.strip() for line in lines)
        if verbatim * 2 > len(lines) or any(line.startswith("  ") for line in lines):
            parts.append(f"<pre class=comment>{html.escape(block, quote=False)}</pre>")
        else:
            words = html.escape(" ".join(line.strip() for line in lines), quote=False)
            words = re.sub(r"`([^`]+)`", lambda match: code.inline(html.unescape(match.group(1)), link), words)
            parts.append(f"<p>{words}</p>")
    return "".join(parts)
