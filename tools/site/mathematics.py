"""LaTeX to MathML, all formulas of the site in one run: KaTeX on a small JavaScript engine, both Debian's."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile

import page as pages

SECONDS = 300  # all formulas of Deckle take five
KATEX = pathlib.Path("/usr/share/javascript/katex/katex.js")
DRIVER = """
if (!Array.prototype.fill) {  // which matrices take, and ES5 has not
  Array.prototype.fill = function (value) { for (var i = 0; i < this.length; ++i) this[i] = value; return this; };
}
var results = [];
for (var i = 0; i < formulas.length; ++i) {
  try {
    results.push(katex.renderToString(formulas[i][0], {output: "mathml", displayMode: formulas[i][1], strict: "ignore"}));
  } catch (error) {
    throw new Error(formulas[i][0] + ": " + error.message);
  }
}
print(JSON.stringify(results));
"""


class Mathematics:
    """Formulas are asked for as marks in the text; render() puts MathML in their place."""

    MARK = re.compile("\x01(\\d+)\x02")

    def __init__(self):
        self.formulas = {}

    def display(self, latex):
        return f"<div class=formula>{self._mark(latex, True)}</div>"

    def inline(self, latex):
        return self._mark(latex, False)

    def _mark(self, latex, display):
        return f"\x01{self.formulas.setdefault((latex, display), len(self.formulas))}\x02"

    def run(self):
        """MathML of every formula that was asked for; call it once, after all pages are made."""
        for missing in [str(KATEX)] * (not KATEX.exists()) + ["duk"] * (shutil.which("duk") is None):
            raise pages.Refused(f"{missing} is missing: install the packages of the section [site] of tools/packages.txt")
        with tempfile.NamedTemporaryFile("w", suffix=".js") as script:
            script.write(f"var formulas = {json.dumps(list(self.formulas))};\n{DRIVER}")
            script.flush()
            try:
                done = subprocess.run(["duk", str(KATEX), script.name], capture_output=True, text=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise pages.Refused(f"{len(self.formulas)} formulas took duk more than {SECONDS} s") from None
        lines = done.stdout.strip().splitlines()
        if done.returncode != 0 or not lines:
            raise pages.Refused(f"a formula is no LaTeX: {done.stderr.strip() or done.stdout.strip()}")
        self.mathml = [clean(text) for text in json.loads(lines[-1])]

    def render(self, text):
        return self.MARK.sub(lambda match: self.mathml[int(match.group(1))], text)


def clean(katex):
    """The <math> element alone, without the LaTeX that it came from."""
    math = re.search(r"<math.*</math>", katex, re.S).group(0)
    math = re.sub(r"<annotation.*?</annotation>|</?semantics>", "", math, flags=re.S)
    return math.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
