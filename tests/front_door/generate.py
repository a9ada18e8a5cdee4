#!/usr/bin/env python3
"""Writes the programs of lines.txt as C++: one function per line, in a few files, and the table that the test walks."""
import pathlib
import sys


def read(path):
    """[(line number, section, PyTorch, Deckle, value)] of a file of lines."""
    section, lines = "", []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if text.startswith("# "):
            section = text[2:]
        elif text.strip():
            parts = [part.strip() for part in text.split("  =>  ")]
            if len(parts) != 3:
                raise SystemExit(f"{path}:{number}: expected 'PyTorch  =>  Deckle  =>  value'")
            lines.append((number, section, *parts))
    return lines


def read_refused(path):
    """[(line number, PyTorch, what does not compile, [what serves], why)] of refused.txt."""
    lines = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if text.startswith("#"):
            continue
        parts = [part.strip() for part in text.split("  =>")]
        if len(parts) not in (3, 4):
            raise SystemExit(f"{path}:{number}: expected 'PyTorch  =>  not  =>  what serves' and perhaps '  =>  why'")
        serving = [program for program in parts[2].split("  or  ") if program]
        if not serving and len(parts) == 3:
            raise SystemExit(f"{path}:{number}: nothing serves, and nothing says why")
        lines.append((number, parts[0], parts[1], serving, parts[3] if len(parts) == 4 else ""))
    return lines


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def statements(program):
    """The program's statements, the last of which is its value: split at `; ` outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(program):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == ";" and depth == 0 and program[i + 1 : i + 2] == " ":
            parts.append(program[start : i + 1])
            start = i + 2
    return parts, program[start:]


def write_if_new(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    source, folder, shards = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    lines = read(source)
    for shard in range(shards):
        text = '#include "tests/front_door/line.h"\nusing namespace deckle;\nnamespace front_door {\n'
        text += f"std::vector<Line> lines_{shard}() {{\n  return {{\n"
        for number, _, _, program, value in lines[shard * len(lines) // shards : (shard + 1) * len(lines) // shards]:
            first, last = statements(program)
            body = "".join(part + " " for part in first)
            text += f'#line {number} "{source}"\n'
            text += f"{{{number}, {quoted(program)}, {quoted(value)},\n"
            text += f'#line {number} "{source}"\n'
            text += f"[](Data data) -> std::string {{ UNPACK(data); {body}return text({last}); }}}},\n"
        text += "  };\n}\n}  // namespace front_door\n"
        write_if_new(folder / f"lines_{shard}.cpp", text)


if __name__ == "__main__":
    main()
