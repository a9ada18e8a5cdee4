"""What a source file says of itself: its head comment, what it includes, what it defines."""

import dataclasses
import re

CPP = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
SCOPE = re.compile(
    r"^(?:inline\s+)?namespace\b\s*([\w:]*)"
    r"|^(?:template\s*<.*>\s*)?(class|struct|union|enum(?:\s+class)?)\s+(?:alignas\(.*?\)\s*)?([\w:]+)",
    re.S,
)
FUNCTION = re.compile(r"(operator\s*\S+?|~?\w+)\s*\($")
VARIABLE = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
NO_NAMES = {
    "if",
    "for",
    "while",
    "switch",
    "return",
    "sizeof",
    "decltype",
    "static_assert",
    "catch",
    "alignas",
    "requires",
    "noexcept",
}


@dataclasses.dataclass
class Definition:
    name: str
    scope: str  # the class that it is a member of, or ""
    kind: str  # class, struct, enum, function, alias, constant
    text: str  # as declared
    comment: str
    line: int
    hidden: bool = False  # private, or in an unnamed namespace
    apart: bool = False  # a blank line or a comment stands before it

    @property
    def full_name(self):
        return f"{self.scope}::{self.name}" if self.scope else self.name


def anchor(name):
    """The name as part of an address: operator<= is operator-3c-3d."""
    return re.sub(r"[^\w:~]", lambda match: f"-{ord(match.group(0)):x}", name)


def head_comment(path, text):
    """The comment that a file begins with; of a header without one, that of its namespace."""
    lines = text.splitlines()
    if path.suffix in CPP:
        lines = [line for line in lines if line.strip() not in ("#pragma once", "")] if not text.startswith("//") else lines
        mark, first = "//", 0
        if not lines or not lines[0].startswith("//"):
            first = next((i for i, line in enumerate(lines) if line.startswith(("///", "namespace", "// "))), len(lines))
        block = []
        for line in lines[first:]:
            if not line.startswith(mark):
                break
            block.append(re.sub(r"^///? ?", "", line))
        following = "".join(lines[first + len(block) : first + len(block) + 1])
        return "\n".join(block) if first == 0 or following.startswith("namespace") else ""
    if path.suffix == ".py" or (lines and "python" in lines[0]):
        found = re.search(r'^(?:#.*\n|\s*\n)*"""(.*?)"""', text, re.S)
        return found.group(1).strip() if found else ""
    block = []
    for line in lines[1:] if lines and lines[0].startswith("#!") else lines:
        if not line.startswith("#"):
            break
        block.append(re.sub(r"^# ?", "", line))
    return "\n".join(block)


def includes(text):
    return INCLUDE.findall(text)


def definitions(text):
    """Types, functions and constants of a C++ file, in their order, with the comment before each."""
    return Scanner(text).run()


def without_comments(text):
    """The text with comments, texts in quotes and preprocessor lines blanked, line by line as long as before."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))

    comment, raw, quoted = r"//[^\n]*|/\*.*?\*/", r'R"(\w*)\(.*?\)\1"', r'"(?:\\.|[^"\\\n])*"'
    character, preprocessor = r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
    pattern = "|".join((comment, raw, quoted, character, preprocessor))
    return re.sub(pattern, blank, text, flags=re.S | re.M)


class Scanner:
    def __init__(self, text):
        self.lines = text.splitlines()
        self.text, self.bare = text, without_comments(text)
        self.found = []

    def run(self):
        scopes, at, start = [], 0, 0  # scopes: (kind, name, hidden)
        bare = self.bare
        while at < len(bare):
            character = bare[at]
            if character == "(":
                at = self._closing(at, "(", ")")
            elif character == ";":
                self._declare(start, at, scopes)
                start = at + 1
            elif character == "}":
                if scopes:
                    scopes.pop()
                start = at + 1
            elif (
                character == ":" and bare[at + 1 : at + 2] != ":" and bare[at - 1] != ":" and scopes and scopes[-1][0] == "class"
            ):
                word = bare[start:at].strip()
                if word in ("public", "private", "protected"):
                    scopes[-1] = (scopes[-1][0], scopes[-1][1], word != "public")
                    start = at + 1
            elif character == "{":
                at, start = self._open(start, at, scopes)
            at += 1
        return self.found

    def _fields_alone(self, at):
        """Whether the struct whose brace this is holds no functions, and not much else."""
        body = self.bare[at : self._closing(at, "{", "}")]
        fields = re.sub(r"=[^;]*;", ";", body)
        return "(" not in fields and body.count("\n") <= 60

    def _closing(self, at, left, right):
        depth = 0
        for i in range(at, len(self.bare)):
            depth += (self.bare[i] == left) - (self.bare[i] == right)
            if depth == 0:
                return i
        return len(self.bare)

    def _open(self, start, at, scopes):
        """At a brace: enters namespaces and classes, steps over all else. Returns where it is, and where what follows begins."""
        head = self.bare[start:at].strip()
        scope = SCOPE.match(head)
        if scope and scope.group(2) is None and head.startswith(("namespace", "inline")):
            scopes.append(("namespace", "", not scope.group(1) or self._hidden(scopes)))
            return at, at + 1
        if scope and scope.group(2) and "(" not in head.split(scope.group(3))[-1]:
            kind = scope.group(2).split()[0]
            end = self._closing(at, "{", "}") if kind == "enum" else at
            whole = kind == "enum" or kind == "struct" and self._fields_alone(at)
            text = self.text[start : self._closing(at, "{", "}") + 1 if whole else at].strip()
            self._add(scope.group(3), kind, text, start, scopes)
            if kind == "enum":
                return end, end + 1
            scopes.append(("class", scope.group(3), (kind == "class") or self._hidden(scopes)))
            return at, at + 1
        end = self._closing(at, "{", "}")
        following = self.bare[end + 1 : end + 40].lstrip()
        if head.endswith("=") or "(" not in head:  # an initialiser: the declaration ends with its semicolon
            if following.startswith(";"):
                self._declare(start, at, scopes)
                return end, end + 1 + self.bare[end + 1 :].index(";") + 1
            return end, start
        if re.search(r"[:,]\s*\w+$", head) and following[:1] in (",", "{"):  # a member initialised with braces
            return end, start
        self._declare(start, at, scopes)
        return end, end + 1

    def _declare(self, start, end, scopes):
        head = re.sub(r"\s+", " ", self.bare[start:end]).strip()
        if not head or head.startswith(("friend", "using namespace", "return", "static_assert", "goto", "break", "case")):
            return
        text = self.text[start:end].strip()
        if (
            head.startswith(("using", "template <", "template<"))
            and " using " in " " + head
            and "=" in head
            and "(" not in head.split("=")[0]
        ):
            name = re.search(r"using (\w+)\s*=", head)
            if name:
                self._add(name.group(1), "alias", text, start, scopes)
            return
        declared = re.sub(r"\s:\s[^:].*", "", head)  # without the list of initialised members
        first = declared.find("(")
        if 0 <= declared.find(" = ") < first:  # a value that a call gives
            return
        if first >= 0:
            name = FUNCTION.search(re.sub(r"\[\[.*?\]\]", "", declared[: first + 1]))
            if name and name.group(1) not in NO_NAMES and (" " in declared[:first] or scopes and scopes[-1][0] == "class"):
                self._add(name.group(1), "function", self._signature(text), start, scopes)
        elif "constexpr" in head:
            name = VARIABLE.search(head.split("=")[0].strip())
            if name:
                self._add(name.group(1), "constant", text, start, scopes)

    def _signature(self, text):
        """A definition's text up to its body or its list of members."""
        return re.sub(r"\)\s*:\s*\w+[({].*", ")", text, flags=re.S)

    def _hidden(self, scopes):
        return any(scope[2] for scope in scopes)

    def _add(self, name, kind, text, start, scopes):
        line = self.text.count("\n", 0, start + len(self.bare[start:]) - len(self.bare[start:].lstrip())) + 1
        comment, above = [], line - 2
        while above >= 0 and self.lines[above].strip().startswith("//"):
            comment.insert(0, re.sub(r"^\s*///? ?", "", self.lines[above]))
            above -= 1
        documented = above + 1 < len(self.lines) and self.lines[above + 1].strip().startswith("///")
        text = re.sub(r"^\s*//.*\n", "", text, flags=re.M).strip()
        owner = "::".join(scope[1] for scope in scopes if scope[0] == "class")
        words = "\n".join(comment) if documented else ""
        apart = bool(comment) or above < 0 or not self.lines[above].strip()
        self.found.append(Definition(name, owner, kind, dedented(text), words, line, self._hidden(scopes), apart))


def dedented(text):
    """A declaration whose later lines keep their place under the first."""
    lines = text.splitlines()
    rest = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    cut = max(0, min(rest) - 4) if rest else 0
    return "\n".join(lines[:1] + [line[cut:] for line in lines[1:]])
