"""Pages about many ops at once: the list by family, and the types that entries declare."""

import html

import page as pages
from entries import Entries
from op_names import FAMILIES, family, path_of, type_path


class Lists(Entries):
    def type_page(self, one):
        made = pages.Page(type_path(one["name"]), one["name"], "type", one["doc"], code_title=True, keywords=(one["name"],))
        made.crumbs = (("Ops", "ops/index.html"), (family(one["stem"]), f"ops/index.html#{one['stem']}"))
        made.lead = f"<p class=meaning>{html.escape(one['doc'])}</p>"
        link = lambda target: pages.relative(made.path, target)
        if one["kind"] == "enum":
            values = ", ".join(one["values"])
            made.sections.append(
                pages.Section("values", "Values", self.code.block(f"enum class {one['name']} {{ {values} }};", "cpp", link))
            )
        else:
            made.sections.append(pages.Section("fields", "Fields", self.arguments(one["arguments"], "Field", link)))
        users = [
            name
            for name, overloads in self.names.items()
            for op in overloads
            if any(one["name"] == argument["type"].rstrip("?") for argument in op["arguments"])
        ]
        if users:
            made.sections.append(
                pages.Section(
                    "ops", "Ops", "<p>" + ", ".join(self.code.inline(name, link) for name in dict.fromkeys(users)) + "</p>"
                )
            )
        made.sections.append(pages.Section("file", "File", f"<p>{self.code.inline(one['file'], link)}</p>"))
        return made

    def top(self, title="Ops", path="ops/index.html"):
        made = pages.Page(path, title, "list", "Every op, by family.")
        count = sum(not overloads[0]["derived"] for overloads in self.names.values())
        made.lead = (
            f"<p>{count} ops. Each has one entry, from which its function, its derivatives in all modes, its kernel, its ragged "
            "rule and its tests are made. <i>R</i> reverse mode, <i>F</i> forward mode, <i>2</i> second order, <i>N</i> nested "
            "tensors.</p>"
        )
        for stem in sorted(self.stems, key=lambda stem: list(FAMILIES).index(stem) if stem in FAMILIES else 99):
            members = {name: overloads for name, overloads in self.names.items() if overloads[0]["stem"] == stem}
            shown = {name: overloads for name, overloads in members.items() if not overloads[0]["derived"]}
            rows = [self._row(name, overloads, made.path) for name, overloads in shown.items()]
            derived = [
                self.code.inline(name, lambda target: pages.relative(made.path, target)) for name in members if name not in shown
            ]
            fused = (
                f"<details><summary>Fused derivatives ({len(derived)})</summary><p>{', '.join(derived)}</p></details>"
                if derived
                else ""
            )
            types = [
                self.code.inline(one["name"], lambda target: pages.relative(made.path, target))
                for one in self.types
                if one["stem"] == stem
            ]
            declared = f"<p>Types: {', '.join(types)}</p>" if types else ""
            made.sections.append(pages.Section(stem, family(stem), pages.table(rows, (), "list") + declared + fused))
        return made

    def _row(self, name, overloads, path):
        op = overloads[0]
        marks = [
            ("R", op["differentiable"]),
            ("F", "forward yes" in op["derivatives"]),
            ("2", "second order yes" in op["derivatives"]),
            ("N", any(op["ragged_dims"])),
        ]
        cells = "".join(f'<span class="{"yes" if yes else "no"}">{mark}</span>' for mark, yes in marks)
        link = f'<a class=code href="{pages.relative(path, path_of(name))}"><code>{html.escape(name)}</code></a>'
        return link, html.escape(op["doc"]), f"<span class=marks>{cells}</span>"
