#!/usr/bin/env python3
"""Every public function that gives a tensor is known to `deckle ops explain`, with reverse, forward and second order.

usage: explain_test.py DECKLE ROOT GENERATED
"""
import pathlib
import re
import subprocess
import sys

ANSWER = r"(yes|no \([\w, ]+\))"
DERIVATIVES = re.compile(rf"  derivatives   (none: (not differentiable|those of \w+ end at order [123])"
                         rf"|reverse yes   forward {ANSWER}   second order {ANSWER}( +\(.+\))?)$")
# Namespaces whose functions are not called by programs: what generated code and templates of the headers need.
INTERNAL = {"detail", "fmt", "functional", "launch", "native", "raw", "composite", "shapes"}
OPENS_CLASS = re.compile(r"\b(class|struct|enum class|union)\s+(\w+)[^()]*$")


def public_headers(root):
    text = (root / "tools/public_headers.txt").read_text().split("[with them]")[0]
    return [root / line for line in text.splitlines() if line.startswith("deckle/")]


def declarations(text):
    """(text, namespaces and classes around it) of what has parentheses: public, outside of bodies."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/|^\s*#.*?$", "", text, flags=re.S | re.M)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    scopes, current, depth = [], "", 0  # scopes: [kind, name, whether public]
    for token in re.findall(r"[{}();]|[^{}();]+", text):
        if token in "()":
            depth += 1 if token == "(" else -1
            current += token
        elif depth > 0:
            current += token
        elif token in "{;":
            head = " ".join(current.split())
            current = ""
            if "(" in head and all(kind != "body" and public for kind, _, public in scopes):
                yield head, [name for _, name, _ in scopes]
            if token == "{":
                namespace = re.fullmatch(r"namespace ?([\w:]*)", head)
                opened = OPENS_CLASS.search(head)
                if namespace:
                    scopes.append(["namespace", namespace.group(1).split("::")[-1], True])
                elif opened:
                    scopes.append([opened.group(1), opened.group(2), opened.group(1) != "class"])
                else:
                    scopes.append(["body", "", False])
        elif token == "}":
            scopes.pop()
            current = ""
        else:
            for access in re.findall(r"\b(public|private|protected):", token):
                scopes[-1][2] = access == "public"
            current += re.sub(r"\b(public|private|protected):", "", token)


def functions(path):
    """Names of functions, and methods of tensors, whose result is or holds a tensor."""
    for text, scope in declarations(path.read_text()):
        if INTERNAL & set(scope) or "operator" in text or text.endswith("= delete"):
            continue
        if scope and scope[-1][:1].isupper() and scope[-1] not in ("Tensor", "NestedTensor"):
            continue
        text = re.sub(r"template <[^()]*?> (requires\(.*?\) )?(?=\w)", "", text)
        result, _, name = text.split("(")[0].rpartition(" ")
        if re.search(r"\b(Nested)?Tensor\b|\bauto$|\bX\b", result) and "RowIterator" not in result:
            yield name


def main(program, root, generated):
    root, generated = pathlib.Path(root), pathlib.Path(generated)
    headers = public_headers(root)
    for folder in ("deckle/ops/generated", "deckle/nested/generated"):
        headers += [path for path in sorted((generated / folder).glob("*.h"))
                    if not path.name.endswith(("_types.h", "_raw.h", "nested_methods.h"))]
    places = {}
    for path in headers:
        for name in functions(path):
            places.setdefault(name, path)
    problems = []
    for name, path in sorted(places.items()):
        done = subprocess.run([program, "ops", "explain", name], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            problems.append(f"{path}: '{name}': {done.stderr.strip()}: give it an entry, or a line in deckle/by_hand.yaml")
            continue
        lines = [line for line in done.stdout.splitlines() if line.startswith("  derivatives ")]
        problems += [f"'{name}': {line}" for line in lines if not DERIVATIVES.match(line)]
        if not lines:
            problems.append(f"'{name}': no line of derivatives")
    for name in ("softmax", "add_", "silu_out", "attention", "to_padded", "mT", "hessian", "index_put_"):
        if name not in places:
            problems.append(f"'{name}' was not found: does this test still read the headers?")
    print("\n".join(problems) or f"{len(places)} functions are explained")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
