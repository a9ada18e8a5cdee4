"""The reference site: every op, guide and source has its page, every link leads somewhere, and search finds what is looked for.

usage: site_test.py OPGEN. Exit code 77 where a package that the site takes is not installed.
"""

import collections
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "tools/site"
ENTRIES = [path for path in sorted((ROOT / "ops").glob("*.yaml")) if path.stem not in ("functions", "instances")]
KATEX = pathlib.Path("/usr/share/javascript/katex/katex.js")


class Parsed(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded, self.tables, self.stack = collections.Counter(), [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given:
            self.ids[given["id"]] += 1
        if tag == "a":
            self.links.append(given["href"])
        for key in ("src", "href"):
            if key in given and tag in ("script", "img", "link"):
                self.loaded.append(given[key])
        if tag == "div":
            self.stack.append(given.get("class"))
        if tag == "table":
            self.tables.append(self.stack[-1] if self.stack else None)

    def handle_endtag(self, tag):
        if tag == "div":
            self.stack.pop()


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def print_ops(folder, entries, root, *options):
    functions = ROOT / "ops/functions.yaml"
    text = run(OPGEN, "site", "--functions", functions, "--root", root, "--entries", *entries, *options)
    (folder / "ops.json").write_text(text)
    return json.loads(text)


def make(folder, *options):
    run(sys.executable, SITE / "build", "--ops", folder / "ops.json", "--out", folder / "site", "--no-fonts", *options)
    return folder / "site"


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.data = print_ops(cls.folder, ENTRIES, ROOT)
        cls.site = make(cls.folder)
        cls.texts = {path.relative_to(cls.site).as_posix(): path.read_text() for path in cls.site.rglob("*.html")}
        cls.parsed = {name: Parsed(text) for name, text in cls.texts.items()}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_script(self, text):
        script = self.folder / "script.js"
        script.write_text(
            "var window = {};\n" + (self.site / "assets/index.js").read_text() + (self.site / "assets/rank.js").read_text() + text
        )
        done = subprocess.run(["duk", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_link_leads_to_a_page_and_a_section(self):
        for name, page in self.parsed.items():
            for link in page.links + page.loaded:
                if "://" in link or link.startswith("mailto:"):
                    continue
                path, _, anchor = link.partition("#")
                if path.startswith("assets/fonts"):
                    continue
                target = (self.site / name).parent / path if path else self.site / name
                self.assertTrue(target.is_file(), f"{name}: {link}")
                if anchor:
                    self.assertIn(
                        anchor, self.parsed[target.resolve().relative_to(self.site.resolve()).as_posix()].ids, f"{name}: {link}"
                    )

    def test_ids_are_given_once(self):
        for name, page in self.parsed.items():
            self.assertEqual([one for one, times in page.ids.items() if times != 1 or re.search(r"\s", one)], [], name)

    def test_nothing_is_loaded_from_elsewhere(self):
        for name, page in self.parsed.items():
            for link in page.loaded:
                self.assertNotIn("://", link, name)
        for asset in ("style.css", "site.js", "rank.js"):
            self.assertNotRegex((self.site / "assets" / asset).read_text(), r"https?://", asset)

    def test_every_op_has_a_page_with_its_signature(self):
        for op in self.data["ops"]:
            text = re.sub(r"<[^>]+>", "", self.texts[f"ops/{op['name']}.html"])
            for line in op["cpp"]:
                self.assertIn(re.sub(r"\s+", " ", html.escape(line, quote=False)), re.sub(r"\s+", " ", text), op["name"])
            self.assertIn(html.escape(op["doc"]), text)

    def test_every_guide_and_source_has_a_page(self):
        for guide in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "ops/SCHEMA.md"]:
            self.assertIn(f"guides/{guide.stem.lower()}.html", self.texts)
        for top in ("deckle", "opgen"):
            for source in [*(ROOT / top).rglob("*.h"), *(ROOT / top).rglob("*.cpp"), *(ROOT / top).rglob("*.cu")]:
                self.assertIn(f"files/{source.relative_to(ROOT).as_posix()}.html", self.texts)

    def test_formulas_are_mathematics(self):
        for name, text in self.texts.items():
            self.assertFalse("\x01" in text, name)
            self.assertFalse(name.startswith("ops/") and "katex" in text, name)
        for guide, formulas in (("attention", 5),):  # ```math of Markdown
            self.assertEqual(self.texts[f"guides/{guide}.html"].count('<div class=formula><math display="block">'), formulas)
        self.assertRegex(self.texts["ops/silu.html"], r"<math display=\"block\"><mrow><mi>y</mi><mo>=</mo><mi>x</mi>")

    def test_identifiers_are_in_the_index(self):
        words = {word: page for name, page in self.parsed.items() if name.startswith("keywords/") for word in page.ids}
        for op in self.data["ops"]:
            for word in (op["name"], *(argument["name"] for argument in op["arguments"] if "." not in argument["name"])):
                if len(word) > 1:
                    self.assertTrue(word in words, word)
        for word in ("NestedTensor", "AttentionOptions", "parallel_for", "DECKLE_CPU", "KeyValueCache"):
            self.assertTrue(word in words, word)
        entry = re.search(r'<dt id="dropout">.*?</dd>', self.texts["keywords/d.html"], re.S).group(0)
        self.assertIn("guides/attention.html#dropout", entry)

    def test_tables_scroll_inside_themselves(self):
        for name, page in self.parsed.items():
            for around in page.tables:
                self.assertEqual(around, "table", name)

    def test_searches_find(self):
        lines = [
            line.split("|") for line in (ROOT / "tests/site/searches.txt").read_text().splitlines() if line and line[0] != "#"
        ]
        self.assertGreaterEqual(len(lines), 20)
        queries = [query.strip() for query, _ in lines]
        found = self.run_script(
            "var search = new Search(window.searchIndex);\n"
            f"print(JSON.stringify({json.dumps(queries)}.map(function (query) {{ return search.find(query, 3); }})));"
        )
        for (query, wanted), hits in zip(lines, found):
            paths = [hit["path"] for hit in hits]
            self.assertTrue(any(path.startswith(wanted.strip()) for path in paths), f"{query}: {paths}")
            for path in paths:
                self.assertIn(path.split("#")[0], self.texts)

    def test_plurals_are_the_same_on_both_sides(self):
        sys.path.insert(0, str(SITE))
        import index

        words = ["masks", "class", "bias", "axis", "ops", "tensors", "as", "losses", "status"]
        self.assertEqual(
            self.run_script(f"print(JSON.stringify({json.dumps(words)}.map(Search.stem)));"), [index.stem(word) for word in words]
        )

    def test_words_are_marked_in_the_text_and_not_in_what_escapes_it(self):
        found = self.run_script(
            'print(JSON.stringify([Search.marked("a < b & c", ["lt", "amp"]), Search.marked("Salt <lt>", ["lt"])]));'
        )
        self.assertEqual(found, ["a &lt; b &amp; c", "Sa<mark>lt</mark> &lt;<mark>lt</mark>&gt;"])

    def test_a_library_of_its_own_gets_pages_of_its_ops(self):
        smooth = ROOT / "examples/custom_library/smooth"
        options = (
            "--library",
            "smooth",
            "--namespace",
            "acme",
            "--own-functions",
            smooth / "functions.yaml",
            "--known",
            *ENTRIES,
        )
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            data = print_ops(folder, [smooth / "smooth.yaml"], smooth, *options)
            site = make(folder, "--ops-only", "--name", "Smooth", "--root", smooth)
            for op in data["ops"]:
                self.assertTrue((site / f"ops/{op['name']}.html").exists(), op["name"])
            self.assertIn("<code>kernels/pairs.cpp</code>", (site / "ops/pair_sums.html").read_text())
            self.assertFalse((site / "files").exists() or (site / "guides").exists())
            for path in site.rglob("*.html"):
                for link in Parsed(path.read_text()).links:
                    if not link.startswith("#"):
                        self.assertTrue((path.parent / link.split("#")[0]).exists(), f"{path}: {link}")

    def small(self, folder, ops, *options):
        """A site of ops alone in `folder`."""
        (folder / "ops.json").write_text(json.dumps({"ops": ops, "types": []}))
        return make(folder, "--ops-only", "--name", "Small", *options)

    def test_only_files_of_the_site_are_removed(self):
        silu, relu = ([op for op in self.data["ops"] if op["name"] == name] for name in ("silu", "relu"))
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            (folder / "site/assets").mkdir(parents=True)
            foreign = [folder / "site" / name for name in ("notes.md", ".hidden", "assets/site_files.txt")]
            for path in foreign:
                path.write_text("notes.md\n")
            with self.assertRaisesRegex(RuntimeError, "holds files that are no site: name an empty folder"):
                self.small(folder, silu + relu)
            self.assertEqual([path.read_text() for path in foreign], ["notes.md\n"] * 3)
            shutil.rmtree(folder / "site")
            site = self.small(folder, silu + relu)
            for path in foreign[:2]:
                path.write_text("mine")
            self.small(folder, silu)
            self.assertTrue((site / "ops/silu.html").exists())
            self.assertFalse((site / "ops/relu.html").exists())
            self.assertEqual([path.read_text() for path in foreign[:2]], ["mine"] * 2)

    def test_what_the_caller_can_mend_is_said(self):
        silu = next(op for op in self.data["ops"] if op["name"] == "silu")
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            site = self.small(folder, [silu, {**silu, "name": "index"}])  # beside the list of ops
            self.assertTrue((site / "ops/index.html").read_text() != (site / "ops/index-op.html").read_text())
            with self.assertRaisesRegex(RuntimeError, r"^build: ops/index-op\.html: 2 pages have this path"):
                self.small(folder, [{**silu, "name": name} for name in ("index", "index-op")])
            (folder / "ops.json").write_text('{"ops": [')
            with self.assertRaisesRegex(RuntimeError, r"^build: .*ops\.json is cut off: run opgen site again$"):
                make(folder, "--ops-only")


if __name__ == "__main__":
    OPGEN = sys.argv.pop(1)
    missing = [name for name, there in (("duktape", shutil.which("duk")), ("libjs-katex", KATEX.exists())) if not there]
    try:
        import markdown_it, pygments
    except ImportError as error:
        missing.append(str(error))
    if missing:
        print(f"not run: {', '.join(missing)} (tools/packages.txt, [site])")
        sys.exit(77)
    unittest.main()
