"""Guides: the Markdown files of the repository as pages."""

import html
import pathlib
import posixpath
import re

import markdown_it

import page as pages
import pictures

# Markdown file -> (path of the site, title in menus or None for its own); in the order of the menu.
ORDER = [
    "README.md",
    "docs/getting_started.md",
    "docs/from_pytorch.md",
    "docs/tensors.md",
    "docs/modules.md",
    "docs/saving.md",
    "docs/autograd.md",
    "docs/nested.md",
    "docs/attention.md",
    "docs/adding_an_op.md",
    "docs/own_ops.md",
    "ops/SCHEMA.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
]
NAMES = {"README.md": "Deckle", "ops/SCHEMA.md": "Op entries"}


def find(root):
    """All guides, those of ORDER first."""
    rest = sorted(path.relative_to(root).as_posix() for path in (root / "docs").glob("*.md")
                  if path.name != "README.md")
    found = [name for name in ORDER if (root / name).exists()]
    return found + [name for name in rest if name not in found]


def path_of(name):
    return f"guides/{pathlib.Path(name).stem.lower()}.html"


class Markdown:
    """Renders Markdown files; `links` maps paths of the repository to paths of the site."""

    def __init__(self, root, links, code, mathematics):
        self.root, self.links, self.code, self.mathematics = root, links, code, mathematics
        self.parser = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
        self.figures = {}  # files to copy: path of the repository -> path of the site

    def title(self, name):
        match = re.search(r"^# (.+)$", (self.root / name).read_text(), re.M)
        return NAMES.get(name) or (re.sub(r"[`*]", "", match.group(1)) if match else pathlib.Path(name).stem)

    def page(self, name, path, kind, drawn):
        """The page of one Markdown file. `drawn` maps anchors of its sections to HTML that goes to their end."""
        tokens = self.parser.parse((self.root / name).read_text())
        made = pages.Page(path, self.title(name), kind, keywords=(pathlib.Path(name).stem,))
        parts, heading, level, title = [], None, 1, ""

        def finish():
            body = "".join(parts)
            if heading is None:
                made.lead += body
            else:
                anchor = heading
                made.sections.append(pages.Section(anchor, title, body + drawn.get(anchor, ""), level, title_html))

        i, chunk, title_html = 0, [], ""
        while i < len(tokens):
            token = tokens[i]
            if token.type == "heading_open" and token.level == 0:
                parts.append(self._render(chunk, name, path))
                chunk = []
                text = tokens[i + 1]
                if token.tag != "h1":
                    finish()
                    parts = []
                    title = pages.plain(self._render([text], name, path))
                    title_html = self._render([text], name, path)
                    heading, level = pages.anchor_of(title), int(token.tag[1])
                i += 3
                continue
            chunk.append(token)
            i += 1
        parts.append(self._render(chunk, name, path))
        finish()
        made.summary = first_sentence(made.lead)
        return made

    def _render(self, tokens, name, path):
        for token in tokens:
            for child in token.children or []:
                if child.type == "link_open":
                    child.attrs["href"] = self._href(child.attrs["href"], name, path)
                elif child.type == "image":
                    child.meta["file"] = self.root / posixpath.normpath(
                        posixpath.join(posixpath.dirname(name), child.attrs["src"])
                    )
                    child.attrs["src"] = self._href(child.attrs["src"], name, path)
        rules = self.parser.renderer.rules
        rules["fence"] = lambda them, i, options, env: (
            self.mathematics.display(them[i].content.strip())
            if language_of(them[i]) == "math"
            else self.code.block(them[i].content, language_of(them[i]), self._link(path))
        )
        rules["code_block"] = lambda them, i, options, env: self.code.block(them[i].content, "", self._link(path))
        rules["code_inline"] = lambda them, i, options, env: (
            self.code.inline(them[i].content, self._link(path))
            if not inside_link(them, i)
            else f"<code>{html.escape(them[i].content, quote=False)}</code>"
        )
        rules["image"] = lambda them, i, options, env: self._image(them[i])
        rules["table_open"] = lambda them, i, options, env: "<div class=table><table>"
        rules["table_close"] = lambda them, i, options, env: "</table></div>"
        text = self.parser.renderer.render(tokens, self.parser.options, {})
        return re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)

    def _image(self, token):
        words = html.escape(token.content, quote=True)
        if token.meta["file"].suffix == ".svg":
            return pictures.plot(token.meta["file"].read_text(), words)
        return f'<img src="{html.escape(token.attrs["src"], quote=True)}" alt="{words}" loading=lazy>'

    def _link(self, path):
        return lambda target: pages.relative(path, target)

    def _href(self, href, name, path):
        if "://" in href or href.startswith(("#", "mailto:")):
            return href
        file, mark, anchor = href.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), file))
        if target in self.links:
            return pages.relative(path, self.links[target]) + mark + anchor
        if not (self.root / target).is_file():
            raise ValueError(f"{name}: a link to {href}, which has no page")
        self.figures[target] = "figures/" + target.replace("benchmarks/results/", "").replace("/", "_")
        return pages.relative(path, self.figures[target])


def language_of(token):
    return token.info.split()[0] if token.info.strip() else ""


def inside_link(tokens, i):
    depth = 0
    for token in tokens[:i]:
        depth += (token.type == "link_open") - (token.type == "link_close")
    return depth > 0


def first_sentence(text):
    """Of the first paragraph, which may go on after what stands in bold."""
    paragraph = re.search(r"<p>(.*?)</p>", text, re.S)
    words = pages.plain(paragraph.group(1)) if paragraph else ""
    match = re.match(r"(.{30,}?[.:;])(\s|$)", words)
    return re.sub(r"[:;]$", ".", match.group(1) if match else words)[:240]
