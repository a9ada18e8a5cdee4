"""What ARCHITECTURE.md quotes of an entry and of generated code stands there: architecture_test.py GENERATED_FOLDER."""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]


def dedented(text):
    """Lines without their indent, so that a quote from within a function may stand further left."""
    return "\n".join(line.strip() for line in text.splitlines()) + "\n"


def main(generated):
    page = (ROOT / "ARCHITECTURE.md").read_text()
    quotes = re.findall(r"^ *```(cpp|yaml)\n(.*?)^ *```$", page, re.M | re.S)
    places = {"yaml": (ROOT / "ops").glob("*.yaml"), "cpp": (generated / "deckle/ops/generated").glob("*.cpp")}
    texts = {kind: [dedented(path.read_text()) for path in paths] for kind, paths in places.items()}
    missing = [textwrap.dedent(quote) for kind, quote in quotes
               if not any("\n" + dedented(quote) in "\n" + text for text in texts[kind])]
    for quote in missing:
        print(f"ARCHITECTURE.md: no file of ops/ and of {generated} has what it quotes:\n{quote}")
    if len(quotes) < 3:
        print(f"ARCHITECTURE.md: {len(quotes)} quotes, where an entry, a function and a node are expected")
    return 1 if missing or len(quotes) < 3 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
