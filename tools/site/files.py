"""Pages of source files and folders: what each says of itself, what it defines, who includes it."""

import html
import pathlib
import posixpath
import re

import highlight
import page as pages
import scanner

TREES = ("deckle", "opgen", "ops", "tools", "cmake", "examples", "benchmarks", "tests")
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py", ".yaml", ".cmake", ".js", ".css"}
DATA = {"golden", "errors", "functions_errors", "corpus", "__pycache__", "build"}  # folders of input and output as it is
LANGUAGES = {".py": "python", ".yaml": "yaml", ".cmake": "cmake", ".js": "javascript", ".css": "css"}


class File:
    def __init__(self, root, name):
        self.name, self.path = name, pathlib.PurePosixPath(name)
        self.text = (root / name).read_text(errors="replace")
        self.cpp = self.path.suffix in scanner.CPP
        self.head = scanner.head_comment(self.path, self.text)
        self.includes = scanner.includes(self.text) if self.cpp else []
        self.definitions = scanner.definitions(self.text) if self.cpp else []
        self.included_by, self.ops = [], []

    @property
    def is_header(self):
        return self.path.suffix in (".h", ".cuh")

    def groups(self):
        """Definitions that are not members, by name, each with its members: {name: ([overloads], [members])}."""
        found = {}
        for one in self.definitions:
            if one.hidden:
                continue
            owner = one.scope.split("::")[0] if one.scope else one.name.split("::")[0]
            entry = found.setdefault(owner, ([], []))
            entry[1 if one.scope else 0].append(one)
        return {name: entry for name, entry in found.items() if entry[0]}

    def summary(self):
        if self.head:
            return sentence(self.head)
        documented = next((one for one in self.definitions if one.comment and not one.hidden), None)
        if documented:
            return f"{documented.full_name}: {sentence(documented.comment)}"
        names = list(dict.fromkeys(one.name for one in self.definitions if not one.hidden))[:6]
        return f"Defines {', '.join(names)}." if names else ""


def find(root):
    """Sources of the repository by name."""
    names = []
    for top in TREES:
        for path in sorted((root / top).rglob("*")):
            name = path.relative_to(root).as_posix()
            if (
                path.is_file()
                and not DATA.intersection(path.relative_to(root).parts)
                and (path.suffix in SOURCES or is_script(path))
            ):
                names.append(name)
    return {name: File(root, name) for name in names}


def notes(root):
    """Markdown files beside the sources that are no folder's sign."""
    names = (
        path.relative_to(root)
        for top in TREES
        for path in sorted((root / top).rglob("*.md"))
        if path.name not in ("README.md", "SCHEMA.md")
    )
    return [name.as_posix() for name in names if not DATA.intersection(name.parts)]


def is_script(path):
    if path.suffix:
        return False
    with path.open("rb") as opened:
        return opened.read(2) == b"#!"


def folders_of(names):
    folders = set()
    for name in names:
        folders.update(parent.as_posix() for parent in pathlib.PurePosixPath(name).parents if parent.as_posix() != ".")
    return sorted(folders)


def path_of(name):
    return f"files/{name}.html"


def folder_path(name):
    return f"files/{name}/index.html"


def sentence(text):
    words = re.sub(r"\s+", " ", text.split("\n\n")[0]).strip()
    match = re.match(r"(.{12,}?[.:])(\s|$)", words)
    return (match.group(1) if match else words)[:200]


def connect(files):
    """Tells every file who includes it; an include names a path from the root."""
    for file in files.values():
        for name in file.includes:
            if name in files:
                files[name].included_by.append(file.name)


def symbols(files, public):
    """{identifier: path of the site}: what public headers declare, and the types of all others."""
    found = {}
    for file in sorted(
        (file for file in files.values() if file.is_header and file.name.startswith("deckle/")),
        key=lambda file: (file.name not in public, file.name.startswith("deckle/kernels"), file.name),
    ):
        for name, (overloads, members) in file.groups().items():
            if file.name in public or name[0].isupper():
                found.setdefault(name, f"{path_of(file.name)}#{scanner.anchor(name)}")
                for member in members:
                    found.setdefault(member.full_name, f"{path_of(file.name)}#{scanner.anchor(name)}")
    return found


def public_headers(root):
    listed = root / "tools/public_headers.txt"
    return set(re.findall(r"^deckle/\S+", listed.read_text(), re.M)) if listed.exists() else set()


def described(definitions):
    """Declarations as text, and the comment before each; those that follow without a gap share it."""
    found = []
    for one in definitions:
        text = one.text + ("" if one.text.endswith("}") else ";")
        if one.apart or not found:
            found.append((text, one.comment))
        else:
            found[-1] = (f"{found[-1][0]}\n{text}", found[-1][1])
    return found


class Pages:
    def __init__(self, files, notes, links, code, markdown):
        self.files, self.notes, self.links, self.code, self.markdown = files, notes, links, code, markdown
        self.folders = folders_of([*files, *notes])
        self.inside = {}  # (title, path of the site, name) of what lies in a folder
        for name in self.folders:
            self.inside.setdefault(posixpath.dirname(name), []).append((posixpath.basename(name) + "/", folder_path(name), name))
        for name in (*files, *notes):
            self.inside.setdefault(posixpath.dirname(name), []).append((posixpath.basename(name), path_of(name), name))

    def crumbs(self, name):
        parents = [parent.as_posix() for parent in reversed(pathlib.PurePosixPath(name).parents) if parent.as_posix() != "."]
        return (("Files", "files/index.html"),) + tuple((posixpath.basename(parent), folder_path(parent)) for parent in parents)

    def beside(self, folder):
        entries = [(title, path) for title, path, _ in self.inside.get(folder, ())]
        return ((folder, entries),)

    def file(self, file):
        folder = posixpath.dirname(file.name)
        made = pages.Page(
            path_of(file.name),
            file.name,
            "file",
            file.summary(),
            crumbs=self.crumbs(file.name),
            beside=self.beside(folder),
            code_title=True,
        )
        made.title = posixpath.basename(file.name)
        link = lambda target: pages.relative(made.path, target)
        made.lead = f"<p class=path><code>{html.escape(file.name)}</code> · {len(file.text.splitlines())} lines</p>" + (
            f"<div class=head>{highlight.prose(file.head, self.code, link)}</div>" if file.head else ""
        )
        if file.cpp:
            (self._header if file.is_header else self._source)(file, made, link)
        else:
            language = LANGUAGES.get(file.path.suffix, "python" if "python" in file.text[:40] else "bash")
            if len(file.text) < 40000:
                made.sections.append(pages.Section("text", "Text", self.code.block(file.text, language, link)))
        if file.ops:
            items = ", ".join(self.code.inline(name, link) for name in sorted(set(file.ops)))
            made.sections.append(pages.Section("ops", "Ops", f"<p>{items}</p>"))
        for anchor, title, names in (("includes", "Includes", file.includes), ("included-by", "Included by", file.included_by)):
            if names:
                items = "".join(f"<li>{self.code.inline(name, link)}</li>" for name in sorted(names))
                made.sections.append(pages.Section(anchor, title, f"<ul class=names>{items}</ul>"))
        return made

    def _header(self, file, made, link):
        for name, (overloads, members) in file.groups().items():
            parts = [
                self.code.block(text, "cpp", link) + (highlight.prose(comment, self.code, link) if comment != file.head else "")
                for text, comment in described(overloads)
            ]
            body = "".join(parts) + self._members(members, overloads, link)
            made.sections.append(
                pages.Section(
                    scanner.anchor(name),
                    name,
                    body,
                    title_html=f"<code>{html.escape(name)}</code>",
                    keywords=(name, *(member.name for member in members)),
                )
            )

    def _members(self, members, overloads, link):
        if not members or any("{" in one.text for one in overloads):  # shown whole
            return ""
        rows = []
        for text, comment in described(members):
            rows.append(f"<dt>{self.code.block(text, 'cpp', link)}</dt><dd>{highlight.prose(comment, self.code, link)}</dd>")
        return f"<dl class=members>{''.join(rows)}</dl>"

    def _source(self, file, made, link):
        rows, shown = [], set()
        for one in file.definitions:
            if one.kind in ("alias", "constant") or one.full_name in shown or (one.scope and one.hidden):
                continue
            shown.add(one.full_name)
            words = html.escape(sentence(one.comment)) if one.comment else ""
            local = " <span class=tag>local</span>" if one.hidden else ""
            rows.append((f"<span class=number>{one.line}</span>", f"<code>{html.escape(one.full_name)}</code>{local}", words))
        if rows:
            table = pages.table(rows, ("Line", "Name", ""))
            made.sections.append(pages.Section("defines", "Defines", table, keywords=tuple(shown)))

    def note(self, name):
        made = self.markdown.page(name, path_of(name), "file", {})
        made.crumbs, made.beside = self.crumbs(name), self.beside(posixpath.dirname(name))
        return made

    def folder(self, name):
        path = folder_path(name)
        sign = f"{name}/README.md"
        if (self.markdown.root / sign).exists():
            made = self.markdown.page(sign, path, "folder", {})
        else:
            made = pages.Page(path, name, "folder")
        made.title, made.code_title, made.crumbs = name, True, self.crumbs(name)
        made.beside = self.beside(name)
        made.sections.append(pages.Section("files", "Files", self._table(name, path)))
        return made

    def _table(self, folder, path):
        rows = []
        for title, target, name in self.inside.get(folder, ()):
            link = f'<a class=code href="{pages.relative(path, target)}"><code>{html.escape(title)}</code></a>'
            rows.append((link, html.escape(self._words(name))))
        return pages.table(rows, (), "list")

    def _words(self, name):
        """What a file, a note or a folder's sign says of itself in a line."""
        if name in self.files:
            return self.files[name].summary()
        if name in self.notes:
            return self.markdown.title(name)
        sign = self.markdown.root / name / "README.md"
        if not sign.exists():
            return ""
        match = re.search(r"^# (.+)$", sign.read_text(), re.M)
        return re.sub(r"[`*]", "", match.group(1)) if match else ""

    def top(self):
        made = pages.Page("files/index.html", "Files", "list", "The source tree: folders, and what lives in each.")
        made.lead = (
            "<p>The source tree. Every folder says what lives in it and what it may know; every file what it defines and who "
            "includes it.</p>"
        )
        for top in TREES:
            if top in self.folders:
                made.sections.append(
                    pages.Section(
                        top,
                        top + "/",
                        self._table(top, made.path),
                        title_html=f'<a href="{pages.relative(made.path, folder_path(top))}"><code>{top}/</code></a>',
                    )
                )
        return made
