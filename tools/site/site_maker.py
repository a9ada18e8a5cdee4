"""The whole site: finds what has a page, makes the pages, writes them with the index."""

import collections
import html
import json
import pathlib

import files
import fonts
import guides
import highlight
import index
import mathematics
import op_lists
import op_names
import out_folder
import page as pages
import pictures

HERE = pathlib.Path(__file__).resolve().parent


class Links(dict):
    """Names and paths of the repository -> paths of the site."""

    def add(self, names):
        for name, path in names.items():
            self.setdefault(name, path)


def make(arguments):
    """Writes the site; returns how many pages it has."""
    out_folder.check(arguments.out)
    try:
        data = json.loads(arguments.ops.read_text())
    except json.JSONDecodeError:
        raise pages.Refused(f"{arguments.ops} is cut off: run opgen site again") from None
    mathematical = mathematics.Mathematics()
    links = Links()
    code = highlight.Code(links)
    everything = not arguments.ops_only
    found = files.find(arguments.root) if everything else {}
    files.connect(found)
    documents = guides.find(arguments.root) if everything else []
    notes = files.notes(arguments.root) if everything else []
    signs = files.folders_of([*found, *notes])
    links.add({name: guides.path_of(name) for name in documents})
    links.add({name: files.path_of(name) for name in (*found, *notes)})
    for folder in signs:
        links.add({folder: files.folder_path(folder), f"{folder}/README.md": files.folder_path(folder)})
    ops = op_lists.Lists(data, arguments.root, found, links, code, mathematical, own=arguments.ops_only)
    links.add({name: op_names.path_of(name) for name in ops.names})
    for overloads in ops.names.values():
        links.add({function: op_names.path_of(overloads[0]["name"]) for function in ops.functions(overloads)})
    for one in data["types"]:
        links.add({one["name"]: op_names.type_path(one["name"]), "type " + one["name"]: op_names.type_path(one["name"])})
    links.add(files.symbols(found, files.public_headers(arguments.root)))
    for op in data["ops"]:
        for device, file in op["kernel_files"].items():
            name = op_names.kernel_path(device, file, arguments.ops_only)
            if name in found:
                found[name].ops.append(op["name"])
    markdown = guides.Markdown(arguments.root, links, code, mathematical)
    made = [ops.page(name) for name in ops.names] + [ops.type_page(one) for one in data["types"]] + [ops.top()]
    if everything:
        made += guide_pages(markdown, documents)
        source = files.Pages(found, notes, links, code, markdown)
        made += [source.file(file) for file in found.values()] + [source.note(name) for name in notes]
        made += [source.folder(folder) for folder in signs] + [source.top()]
        made.append(front(arguments.name, made, ops))
    else:
        made.append(ops.top(arguments.name, "index.html"))
    made.append(results_page())
    made += index.keyword_pages(index.keywords(made))
    write(arguments, made, mathematical, markdown.figures)
    return len(made)


def guide_pages(markdown, documents):
    beside = (("Guides", [(markdown.title(name), guides.path_of(name)) for name in documents]),)
    made = []
    for name in documents:
        drawn = {anchor: draw() for (file, anchor), draw in pictures.IN_GUIDES.items() if file == name}
        page = markdown.page(name, guides.path_of(name), "guide", drawn)
        page.beside, page.crumbs = beside, (("Guides", "guides/index.html"),)
        made.append(page)
    top = pages.Page("guides/index.html", "Guides", "list", "Everything that is explained at length.", beside=beside)
    top.lead = cards([(page.title, page.summary, page.path) for page in made], top.path)
    return made + [top]


def cards(rows, path):
    items = "".join(
        f'<a href="{pages.relative(path, target)}"><b>{html.escape(title)}</b><span>{html.escape(words)}</span></a>'
        for title, words, target in rows
    )
    return f"<div class=cards>{items}</div>"


def front(name, made, ops):
    """The first page: what it is, guides, families of ops."""
    page = pages.Page("index.html", name, "list", indexed=False)
    by_path = {one.path: one for one in made}
    readme = by_path["guides/readme.html"]
    page.summary = readme.summary
    page.lead = f"<div class=hero>{readme.lead.split('<pre>')[0].replace('../', '')}</div>"
    first = next((section for section in readme.sections if "program" in section.title.lower()), None)
    guides_made = [(one.title, one.summary, one.path) for one in made if one.kind == "guide" and one is not readme]
    page.sections.append(pages.Section("guides", "Guides", cards(guides_made, page.path)))
    if first:
        page.sections.append(pages.Section(first.anchor, first.title, first.body.replace('href="../', 'href="')))
    families = []
    for stem in ops.stems:
        names = [name for name, overloads in ops.names.items() if overloads[0]["stem"] == stem and not overloads[0]["derived"]]
        if names:
            families.append(
                (op_names.family(stem), ", ".join(names[:6]) + (" …" if len(names) > 6 else ""), f"ops/index.html#{stem}")
            )
    page.sections.append(pages.Section("ops", "Ops", cards(families, page.path)))
    return page


def results_page():
    page = pages.Page("search.html", "Search", "list", indexed=False)
    page.lead = '<div id="site.results"><p>Type into the box above.</p></div>'
    return page


def write(arguments, made, mathematical, figures):
    """Writes what changed, removes what is no longer made."""
    made_paths = collections.Counter(page.path for page in made)
    for path in (path for path, times in made_paths.items() if times > 1):
        titles = ", ".join(page.title for page in made if page.path == path)
        raise pages.Refused(f"{path}: {made_paths[path]} pages have this path ({titles}): rename what they are about")
    mathematical.run()
    menu = [(title, path) for title, path in pages.MENU if path in made_paths]
    template = (HERE / "template.html").read_text()
    texts = {page.path: mathematical.render(pages.frame(template, arguments.name, menu, page)).encode() for page in made}
    texts.update({f"assets/{asset.name}": asset.read_bytes() for asset in sorted((HERE / "assets").iterdir())})
    texts["assets/index.js"] = index.search_index(made).encode()
    texts.update({path: (arguments.root / name).read_bytes() for name, path in figures.items()})
    out = arguments.out
    out_folder.prepare(out, [*texts, *(f"assets/fonts/{name}" for name in fonts.names())])
    for name, text in texts.items():
        target = out / name
        if not target.exists() or target.read_bytes() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
    if not arguments.no_fonts:
        fonts.write(out / "assets/fonts")
