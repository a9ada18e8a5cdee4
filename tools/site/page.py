"""A page of the site: a title, a lead and sections, written into the frame that all pages share."""

import dataclasses
import functools
import html
import os
import re

KINDS = {
    "guide": "Guide",
    "op": "Op",
    "derived": "Fused derivative",
    "type": "Type",
    "file": "File",
    "folder": "Folder",
    "list": "List",
}
MENU = (
    ("Guides", "guides/index.html"),
    ("Ops", "ops/index.html"),
    ("Files", "files/index.html"),
    ("Index", "keywords/index.html"),
)


class Refused(Exception):
    """What the person who makes the site can mend: said without a trace of calls."""


@dataclasses.dataclass
class Section:
    anchor: str
    title: str  # plain text
    body: str  # HTML
    level: int = 2
    title_html: str = ""
    keywords: tuple = ()  # identifiers that it defines


@dataclasses.dataclass
class Page:
    path: str  # below the root of the site
    title: str
    kind: str
    summary: str = ""  # one sentence, plain text
    lead: str = ""  # HTML between the title and the first section
    sections: list = dataclasses.field(default_factory=list)
    crumbs: tuple = ()  # (title, path)
    beside: tuple = ()  # of the left column: (heading, [(title, path)])
    code_title: bool = False  # the title is an identifier or a path
    indexed: bool = True
    keywords: tuple = ()


def relative(page, target):
    """The link from one path of the site to another, which may have an anchor."""
    path, mark, anchor = target.partition("#")
    if path == page and mark:
        return "#" + anchor
    folder, slash, name = path.rpartition("/")
    return way(page.rpartition("/")[0], folder) + name + mark + anchor


@functools.lru_cache(None)
def way(start, folder):
    """From one folder to another, with its last slash; nothing if they are one."""
    steps = os.path.relpath("/" + folder, "/" + start).replace(os.sep, "/")
    return "" if steps == "." else steps + "/"


def plain(text):
    """HTML without its tags and pictures."""
    text = re.sub(r"<(svg|math)\b.*?</\1>", " ", text, flags=re.S)
    text = re.sub(r"</?(?:span|a|code|wbr|b|i|em|strong)\b[^>]*>", "", text)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text))).strip()


def table(rows, headings=(), kind=""):
    """A table of cells in HTML; `kind` is its class, which the style sheet knows."""
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class=table><table class="{kind}">{head}{body}</table></div>'


def anchor_of(title):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", title.strip().lower()))


def frame(template, site_name, menu_entries, page):
    """The whole document. `template` has {{words}} for what differs from page to page; `menu_entries` are (title, path)."""

    def link(path):
        return html.escape(relative(page.path, path), quote=True)

    menu = "".join(
        f'<a href="{link(path)}"{" class=here" if page.path.split("/")[0] == path.split("/")[0] else ""}>{title}</a>'
        for title, path in menu_entries
    )
    crumbs = "".join(
        f'<a href="{link(path)}">{html.escape(title)}</a><span aria-hidden=true>/</span>' for title, path in page.crumbs
    )
    title = html.escape(page.title)
    if page.code_title:
        title = "<code>" + re.sub(r"([/_])", r"\1<wbr>", title) + "</code>"
    parts = [f"<p class=crumbs>{crumbs}</p>" if crumbs else "", f"<h1>{title}</h1>", page.lead]
    for section in page.sections:
        heading = section.title_html or html.escape(section.title)
        parts.append(
            f'<section id="{section.anchor}"><h{section.level}>{heading}<a class=anchor href="#{section.anchor}" '
            f'aria-label="Link to this section">#</a></h{section.level}>{section.body}</section>'
        )
    words = {
        "title": html.escape(page.title if page.title == site_name else f"{page.title} · {site_name}"),
        "name": html.escape(site_name),
        "root": link("index.html")[: -len("index.html")],
        "menu": menu,
        "beside": beside(page, link),
        "contents": contents(page),
        "main": "".join(parts),
        "summary": html.escape(page.summary, quote=True),
        "kind": page.kind,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: words[match.group(1)], template)


def beside(page, link):
    parts = []
    for heading, entries in page.beside:
        items = "".join(
            f'<li><a href="{link(path)}"{" aria-current=page" if path == page.path else ""}>{html.escape(title)}</a></li>'
            for title, path in entries
        )
        parts.append(f"<h2>{html.escape(heading)}</h2><ul>{items}</ul>")
    return "".join(parts)


def contents(page):
    if len(page.sections) < 3:
        return ""
    items = "".join(
        f'<li class=level{section.level}><a href="#{section.anchor}">{html.escape(section.title)}</a></li>'
        for section in page.sections
        if section.level <= 3
    )
    return f"<nav class=contents aria-label='On this page'><h2>On this page</h2><ul>{items}</ul></nav>"
