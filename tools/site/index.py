"""The index behind search, and the pages of the keyword index."""

import collections
import html
import json
import re

import page as pages
import scanner

TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+")
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
STOP = set(
    "a an and are as at be by for from in is it its of on or that the this to with which what not no has have was than then so "
    "if why each one all any other others do does into only where when who their them they there these those".split()
)
CODE = re.compile(r"<code>(.*?)</code>", re.S)
CPP_WORDS = set(
    """alignas auto bool break case catch char class const constexpr continue decltype default delete do double else enum explicit
    export extern false final float for friend if inline int long mutable namespace new noexcept nullptr operator override private
    protected public return short signed sizeof static struct switch template this throw true try typedef typename union unsigned
    using virtual void volatile while std string vector size_t int64_t int32_t uint64_t uint32_t uint8_t include pragma
    once""".split()
)
KIND_WEIGHT = {"op": 1.25, "guide": 1.15, "type": 1.0, "file": 0.6, "folder": 0.7, "derived": 0.4, "list": 0.5}


def stem(word):
    """The same word in the plural is the same word. assets/rank.js does the same."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def words_of(text):
    """Lower-case words of a text; an identifier is itself and its parts."""
    for token in TOKEN.findall(text):
        whole = token.strip("_").lower()
        if not whole:
            continue
        yield stem(whole)
        parts = [part.lower() for part in PARTS.findall(token)]
        if len(parts) > 1:
            for part in parts:
                yield stem(part)


def search_index(made):
    """The index as the text of a script. Sections of files are known by their names and first words, others by all words."""
    sections, postings, page_rows = [], collections.defaultdict(dict), []
    for number, page in enumerate(page for page in made if page.indexed):
        page_rows.append([page.path, page.title, page.kind])
        rows = [("", "", page.lead, page.keywords)] + [(one.anchor, one.title, one.body, one.keywords) for one in page.sections]
        for anchor, title, body, keywords in rows:
            if anchor in ("includes", "included-by"):
                continue
            text = pages.plain(body)
            if not anchor and not text:
                text = page.summary
            weights = collections.Counter()
            limit = 300 if page.kind in ("file", "folder", "list", "derived") else 20000
            for word in words_of(text[:limit]):
                if word not in STOP:
                    weights[word] = min(weights[word] + 1, 8)
            for word in words_of(title):
                weights[word] += 16
            for word in words_of(" ".join(keywords)):
                weights[word] += 14
            for word in set(words_of(page.title)):
                weights[word] += 10 if anchor else 24
            identifier = len(sections)
            about = text
            if not anchor or anchor == "defines":
                about = page.summary or text
            elif page.kind == "file":  # what is said of it before how it is declared
                about = pages.plain(re.sub(r"<pre>.*?</pre>", " ", body, flags=re.S)) or text
            sections.append([number, anchor, title if title != page.title else "", excerpt(about)])
            for word, weight in weights.items():
                postings[word][identifier] = weight
    terms = sorted(postings)
    lists = [encoded(postings[term]) for term in terms]
    data = {
        "pages": page_rows,
        "sections": sections,
        "terms": " ".join(terms),
        "lists": " ".join(lists),
        "kinds": KIND_WEIGHT,
        "names": pages.KINDS,
    }
    text = json.dumps(json.dumps(data, separators=(",", ":"), ensure_ascii=False), ensure_ascii=False)
    return f"window.searchIndex=JSON.parse({text});\n"  # which engines read faster than a literal


def excerpt(text):
    return text if len(text) <= 110 else text[:110].rsplit(" ", 1)[0] + " …"


def encoded(posting):
    """Sections and weights of one word: differences in base 36, ':' and the weight, joined by ','."""
    parts, last = [], 0
    for section in sorted(posting):
        parts.append(base36(section - last) + (":" + base36(posting[section]) if posting[section] != 1 else ""))
        last = section
    return ",".join(parts)


def base36(number):
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
        if not number:
            return text


def keywords(made):
    """{identifier: [(page, section or None)]} of all code on all pages, definitions first."""
    found = collections.defaultdict(dict)
    for page in made:
        if page.path.startswith("files/tests/"):
            continue
        for section in [None, *page.sections]:
            body, own = (page.lead, page.keywords) if section is None else (section.body, section.keywords)
            if page.kind == "file" and section and section.anchor == "text":  # a file that is shown whole
                continue
            words = {word for code in CODE.findall(body) for word in TOKEN.findall(pages.plain(code)) if is_keyword(word)}
            if section is None and page.kind in ("op", "derived", "type"):
                own = (*own, page.title)
            for word in words | {word for word in own if len(word) > 1}:
                found[word][page.path, section.anchor if section else ""] = (word not in own, page, section)
    for page in made:
        for section in page.sections if page.kind == "guide" else ():  # `Dropout` heads what is said of dropout
            for word in {word.lower() for word in TOKEN.findall(section.title)} - STOP:
                if word in found:
                    found[word][page.path, section.anchor] = (False, page, section)
    order = {"op": 0, "type": 0, "guide": 1, "derived": 2, "folder": 3, "file": 3, "list": 4}
    return {
        word: [
            (page, section)
            for _, page, section in sorted(places.values(), key=lambda one: (one[0], order[one[1].kind], one[1].path))
        ]
        for word, places in found.items()
    }


def is_keyword(word):
    return len(word) > 1 and not word[0].isdigit() and word.strip("_") != "" and word not in CPP_WORDS


def letter_of(word):
    first = word.lstrip("_")[0].lower()
    return first if first.isascii() and first.isalpha() else "other"


def keyword_pages(found):
    """A page for each letter."""
    letters = collections.defaultdict(list)
    for word in sorted(found, key=lambda word: (word.lower().lstrip("_"), word)):
        letters[letter_of(word)].append(word)
    top = pages.Page("keywords/index.html", "Index", "list", "Every identifier, and the sections where it stands.", indexed=False)
    top.lead = f"<p>{len(found):,} identifiers, and the sections where each stands.</p>" + alphabet(letters, top.path, "")
    made = [top]
    for letter, words in letters.items():
        page = pages.Page(
            f"keywords/{letter}.html",
            f"Index: {letter.upper() if len(letter) == 1 else letter}",
            "list",
            indexed=False,
            crumbs=(("Index", top.path),),
        )
        rows = "".join(
            f'<dt id="{scanner.anchor(word)}"><code>{html.escape(word)}</code></dt><dd>{entries(found[word], page.path)}</dd>'
            for word in words
        )
        page.lead = alphabet(letters, page.path, letter) + f"<dl class=keywords>{rows}</dl>"
        made.append(page)
    return made


def alphabet(letters, path, current):
    items = "".join(
        f'<a href="{pages.relative(path, f"keywords/{letter}.html")}"{" aria-current=page" if letter == current else ""}>'
        f'{letter.upper() if len(letter) == 1 else "_"}</a>'
        for letter in sorted(letters)
    )
    return f"<p class=alphabet>{items}</p>"


def entries(places, path, shown=12):
    """Links to pages, each with its sections."""
    by_page = {}
    for page, section in places:
        by_page.setdefault(page.path, (page, []))[1].append(section)
    items = []
    for page, sections in by_page.values():
        links = [
            f'<a href="{pages.relative(path, page.path + "#" + one.anchor)}">{html.escape(one.title)}</a>'
            for one in sections
            if one
        ]
        own = f'<a href="{pages.relative(path, page.path)}">{html.escape(name_of(page))}</a>'
        items.append(own + (f": {', '.join(links)}" if links else ""))
    text = "".join(f"<li>{item}</li>" for item in items[:shown])
    if len(items) > shown:
        rest = "".join(f"<li>{item}</li>" for item in items[shown:])
        text += f"</ul><details><summary>{len(items) - shown} more</summary><ul>{rest}</ul></details><ul>"
    return f"<ul>{text}</ul>".replace("<ul></ul>", "")


def name_of(page):
    return page.path[len("files/") : -len(".html")] if page.kind == "file" else page.title
