#!/usr/bin/env python3
"""An op that has `self` first and is a method of torch.Tensor or numpy.ndarray (methods.txt) is a method here, and no other is.

usage: methods_test.py OPS_FOLDER
"""
import pathlib
import re
import sys

# Methods that are not named there, and ops that are and have a member written by hand.
MORE = {"slice": "a view by numbers; index({slice(...)}) counts dims from the left"}
BY_HAND = {"detach": "a member of the base layer", "index_put": "takes the lists of index()", "unbind": "components, dense"}


def entries(folder):
    for path in sorted(folder.glob("*.yaml")):
        if path.stem in ("functions", "instances"):
            continue
        for block in re.split(r"^(?=- func: )", path.read_text(), flags=re.M)[1:]:
            yield path.name, block


def main():
    names = set((pathlib.Path(__file__).parent / "methods.txt").read_text().split())
    wrong, methods = [], set()
    for file, block in entries(pathlib.Path(sys.argv[1])):
        head = re.match(r"- func: (\w+)(?:\.\w+)?\(Tensor(?:\([^)]*\))? self[,)]", block)
        variants = re.search(r"^  variants: \[(.*)\]", block, flags=re.M)
        method = bool(variants) and "method" in variants.group(1).split(", ")
        name = re.match(r"- func: (\w+)", block).group(1)
        wanted = bool(head) and (name in names or name in MORE) and name not in BY_HAND
        if method:
            methods.add(name)
        if method != wanted:
            wrong.append(f"{file}: '{name}': {'add' if wanted else 'leave out'} 'method' among its variants")
    library = pathlib.Path(sys.argv[1]).parent / "deckle"
    for name in sorted(set(re.findall(r'func: "(\w+)\(Tensor self', (library / "by_hand.yaml").read_text())) & names):
        for header in ("core/tensor.h", "nested/nested_tensor.h"):
            if not re.search(rf"^  \w+ {name}\(.*\) const;", (library / header).read_text(), flags=re.M):
                wrong.append(f"{header}: '{name}', which no entry declares, is a method there: add it")
    if len(methods) < 80:
        wrong.append(f"only {len(methods)} methods found: does this test still read the entries?")
    print("\n".join(wrong) or f"{len(methods)} names are methods, as the rule says")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
