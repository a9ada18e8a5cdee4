"""Pages of ops: what followed from each entry, as `opgen site` prints it."""

import html
import re

import highlight
import page as pages
import pictures
from op_names import family, group, kernel_path, path_of

BODIES = {
    "pointwise": "One fused loop over the elements, generated for every instruction set.",
    "kernel": "A kernel of its own.",
    "native": "Written in C++ over the storage of tensors, below autograd.",
    "composite": "Made of other ops by a formula.",
    "composite_cpp": "Made of other ops in C++.",
}
FLOATING = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*FLOATING, "integers", "bool")


class Entries:
    def __init__(self, data, root, files, links, code, mathematics, own=False):
        """`own`: the ops of a library around Deckle, whose kernels lie where it says."""
        self.names, self.types = group(data["ops"]), data["types"]
        self.root, self.files, self.links, self.code, self.mathematics = root, files, links, code, mathematics
        self.own, self.callers = own, {}
        for op in data["ops"]:
            for called in {*op["calls"], *op["parts"], *([op["segment_op"]] if op["segment_op"] else [])}:
                self.callers.setdefault(called, set()).add(op["name"])
        self.stems = list(dict.fromkeys(op["stem"] for op in data["ops"]))
        self.lines = {}

    def page(self, name):
        overloads = self.names[name]
        first = overloads[0]
        made = pages.Page(
            path_of(name),
            name,
            "derived" if first["derived"] else "op",
            first["doc"] or self._derived_words(first),
            code_title=True,
            keywords=self.functions(overloads),
        )
        made.crumbs = (("Ops", "ops/index.html"), (family(first["stem"]), f"ops/index.html#{first['stem']}"))
        made.beside = ((family(first["stem"]), self._siblings(first)),)
        link = lambda target: pages.relative(made.path, target)
        several = len(overloads) > 1
        made.lead = f"<p class=meaning>{html.escape(made.summary)}</p>" + (self._badges(first, link) if not several else "")
        for op in overloads:
            if several:
                made.sections.append(
                    pages.Section(
                        op["unique"],
                        self._call(op),
                        self._overload(op, link),
                        2,
                        title_html=f"<code>{html.escape(self._call(op))}</code>",
                    )
                )
            level = 3 if several else 2
            for title, body in self._parts(op, link):
                if body:
                    anchor = pages.anchor_of(title) + (f"-{op['unique']}" if several else "")
                    made.sections.append(pages.Section(anchor, title, body, level))
        made.sections.append(pages.Section("files", "Files", self._files(overloads, link)))
        return made

    def functions(self, overloads):
        """The names of the C++ functions that make the op."""
        return tuple(dict.fromkeys(re.search(r"(\w+)\(", text).group(1) for op in overloads for text in op["cpp"]))

    def _derived_words(self, op):
        base = re.sub(r"(_backward(_\w+?)?)+$", "", op["name"])
        return f"The fused derivative of {base if base in self.names else 'a formula of ' + op['stem']}; formulas call it."

    def _siblings(self, op):
        return [
            (name, path_of(name))
            for name, overloads in self.names.items()
            if overloads[0]["stem"] == op["stem"] and overloads[0]["derived"] == op["derived"]
        ]

    def _call(self, op):
        arguments = [f"{argument['type']} {argument['name']}" for argument in op["arguments"] if not argument["option"]]
        return f"{op['name']}({', '.join(arguments)})"

    def _overload(self, op, link):
        doc = f"<p>{html.escape(op['doc'])}</p>" if op["doc"] != self.names[op["name"]][0]["doc"] else ""
        return doc + self._badges(op, link)

    def _badges(self, op, link):
        words = [
            f'<a href="{link("ops/index.html#" + op["stem"])}">{html.escape(family(op["stem"]))}</a>',
            op["dtypes"] + " dtypes",
        ]
        if op["differentiable"] and op["derivatives"].startswith("reverse yes"):
            orders = [
                word
                for word, mark in (("reverse", "reverse yes"), ("forward", "forward yes"), ("second order", "second order yes"))
                if mark in op["derivatives"]
            ]
            words.append("derivatives: " + ", ".join(orders))
        elif not op["differentiable"]:
            words.append("not differentiable")
        words.append("ragged" if any(op["ragged_dims"]) else "dense only")
        if op["view"]:
            words.append("a view")
        return "<p class=badges>" + "".join(f"<span>{word}</span>" for word in words) + "</p>"

    def _parts(self, op, link):
        yield "Signature", self._signature(op, link)
        yield "Formula", self._equations(op["meaning"], op)
        yield "Derivatives", self._derivatives(op, link)
        yield "On nested tensors", self._ragged(op, link)
        yield "Dtypes", self._dtypes(op)
        yield "Errors", self._errors(op)
        yield "Cost", self._cost(op, link)

    def _signature(self, op, link):
        text = (op["options"].strip() + "\n\n" if op["options"] else "") + "\n".join(
            highlight.wrapped(line) + ";" for line in op["cpp"]
        )
        return self.code.block(text, "cpp", link) + (self.arguments(op["arguments"], "Argument", link) if op["arguments"] else "")

    def arguments(self, arguments, heading, link):
        rows = []
        for argument in arguments:
            standard = f"<code>{html.escape(argument['default'])}</code>" if "default" in argument else ""
            option = " <span class=tag>option</span>" if argument["option"] else ""
            declared = self.links.get("type " + argument["type"].rstrip("?"))
            words = html.escape(argument["type"])
            words = f'<a href="{link(declared)}">{words}</a>' if declared else words
            rows.append((f"<code>{html.escape(argument['name'])}</code>{option}", f"<code>{words}</code>", standard))
        return pages.table(rows, (heading, "Type", "Default"))

    def _equation(self, one):
        lines = [f"{one['left']} = {one['right']}"] + [
            f"\\text{{with }}\\; {let['left']} = {let['right']}" for let in one["with"]
        ]
        text = "".join(self.mathematics.display(line) for line in lines)
        if one.get("when"):
            text += f"<p class=when>where {self.mathematics.inline(one['when'])}</p>"
        return text

    def _equations(self, equations, op):
        text = self.mathematics.display(op["math"]) if op["math"] else ""
        text += "".join(self._equation(one) for one in equations)
        return text + self._legend(op) if text else ""

    def _legend(self, op):
        letters = self._letters(op)
        return f"<p class=legend>{letters}</p>" if letters else ""

    def _derivatives(self, op, link):
        if not op["differentiable"]:
            return "<p>None: the op is not differentiable.</p>"
        parts = []
        for key, title in (("reverse", "Reverse mode"), ("forward", "Forward mode")):
            if op[key]:
                parts.append(f"<h4>{title}</h4>" + "".join(self._equation(one) for one in op[key]))
        if parts:
            marks = self.mathematics.inline("\\bar{x}"), self.mathematics.inline("\\dot{x}")
            parts.append(
                f"<p class=legend>{marks[0]} is the gradient of a value, {marks[1]} its tangent."
                f"{'' if op['meaning'] else ' ' + self._letters(op)}</p>"
            )
        if op["constant"]:
            parts.append(
                "<p>No gradient flows to " + ", ".join(f"<code>{html.escape(name)}</code>" for name in op["constant"]) + ".</p>"
            )
        if op["parts"] and not parts:
            names = ", ".join(self.code.inline(name, link) for name in op["parts"])
            parts.append(f"<p>Those of the ops that it is made of: {names}.</p>")
        rows = [("Orders", html.escape(re.sub(" {3}", " · ", op["derivatives"])))]
        if op["saves"] != "nothing":
            rows.append(("Saved for backward", html.escape(op["saves"])))
        if op["autocast"]:
            rows.append(("Under Autocast, converted to", html.escape(op["autocast"])))
        facts = "".join(f"<dt>{title}</dt><dd>{words}</dd>" for title, words in rows)
        return "".join(parts) + f"<dl class=facts>{facts}</dl>"

    def _letters(self, op):
        return ", ".join(
            f"{self.mathematics.inline(one['letter'])} is <code>{html.escape(one['name'])}</code>" for one in op["letters"]
        )

    def _ragged(self, op, link):
        words = f"<p>{html.escape(op['ragged'][:1].upper() + op['ragged'][1:])}.</p>"
        if not any(op["ragged_dims"]):
            return words.replace("Error: ", "Refused: ")
        rows = zip(("the batch", "a ragged dim", "a regular dim"), map(html.escape, op["ragged_dims"]))
        return words + f"<div class=pair>{pages.table(rows, ('Over', 'It runs'), 'dims')}{pictures.rule(op['ragged'])}</div>"

    def _dtypes(self, op):
        whole = ("integers", "bool")
        kinds = {"floating": FLOATING, "integral": whole, "numeric": (*FLOATING, "integers"), "all": (*FLOATING, *whole)}
        taken = kinds[op["dtypes"]]
        note = ""
        if op["body"] == "pointwise" and op["dtypes"] == "floating":
            taken, note = (*FLOATING, "integers"), "<p class=note>Integers compute as float32.</p>"
        chips = "".join(f'<span class="{"yes" if name in taken else "no"}">{name}</span>' for name in DTYPES)
        return f"<p class=dtypes>{chips}</p>{note}"

    def _errors(self, op):
        rows = [(self.mathematics.inline(check["condition"]), check["says"]) for check in op["checks"]]
        for name in op["dims"]:
            rows.append(
                (
                    f"<code>{html.escape(name)}</code> counts a dim, from either end",
                    f"{op['name']}: {name} … is out of range for … of shape … (expected …)",
                )
            )
        if not any(op["ragged_dims"]) and op["ragged"].startswith("error: "):
            rows.append(("dense tensors", op["ragged"][len("error: ") :]))
        if not rows:
            return ""
        rows = [(rule, f"<code>{html.escape(says)}</code>") for rule, says in rows]
        return pages.table(rows, ("Must hold", "Otherwise"), "errors")

    def _cost(self, op, link):
        rows = [("Runs as", html.escape(BODIES[op["body"]]))]
        if op["body"] == "pointwise":
            tensors = sum(argument["type"].startswith("Tensor") for argument in op["arguments"])
            rows.append(("Memory traffic", f"reads {tensors} and writes 1 element per element of the result, in one pass"))
            work = ", ".join(f"{times} {self._work(name, times)}" for name, times in op["work"].items())
            rows.append(("Work per element", work or "a copy"))
        if op["body"] in ("kernel", "pointwise"):
            rows.append(("Kernels", html.escape(re.sub(" {4}", " · ", op["kernels"]))))
        if op["backward_calls"]:
            rows.append(("Backward calls", ", ".join(self.code.inline(name, link) for name in op["backward_calls"])))
        facts = "".join(f"<dt>{title}</dt><dd>{words}</dd>" for title, words in rows)
        return f"<dl class=facts>{facts}</dl>{self._kernel_notes(op, link)}"

    def _kernel_notes(self, op, link):
        """What the kernel's own file says at its head: bytes, operations, instances."""
        text = ""
        for device, file in op["kernel_files"].items():
            name = kernel_path(device, file, self.own)
            if name in self.files and self.files[name].head:
                text += f"<p>At the head of {self.code.inline(name, link)}:</p><pre class=comment>"
                text += html.escape(self.files[name].head, quote=False) + "</pre>"
        return text

    def _work(self, name, times):
        if name == "arithmetic":
            return "arithmetic operation" + "s" * (times > 1)
        return f"<code>{html.escape(name)}</code>"

    def _entry(self, op):
        """The text of the entry, from its file."""
        if op["file"] not in self.lines:
            path = self.root / op["file"]
            self.lines[op["file"]] = path.read_text().splitlines() if path.exists() else []
        lines = self.lines[op["file"]][op["line"] - 1 :]
        end = next((i for i, line in enumerate(lines) if i and (not line.strip() or line.startswith(("- ", "#")))), len(lines))
        return "\n".join(lines[:end])

    def _files(self, overloads, link):
        places = {}
        for op in overloads:
            places[op["file"]] = "the entry"
            for device, file in op["kernel_files"].items():
                places[kernel_path(device, file, self.own)] = f"the {device} kernel"
        places.update({name: "written by hand" for name in (f"deckle/ops/{overloads[0]['name']}.cpp",) if name in self.files})
        text = pages.table([(self.code.inline(name, link), words) for name, words in places.items()], (), "list")
        calls = sorted({name for op in overloads for name in (*op["calls"], *op["parts"])})
        callers = sorted(self.callers.get(overloads[0]["name"], ()))
        for title, names in (("Calls", calls), ("Called by", callers)):
            if names:
                text += f"<p><b>{title}</b> {', '.join(self.code.inline(name, link) for name in names)}</p>"
        entries = "\n\n".join(dict.fromkeys(self._entry(op) for op in overloads))
        if entries.strip():
            text += f"<details><summary>The entry</summary>{self.code.block(entries, 'yaml', link)}</details>"
        return text
