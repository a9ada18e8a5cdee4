#!/usr/bin/env python3
"""The programs of lines.txt serve the installed library: what they include is installed, byte for byte what they were
compiled with, and they run with the installed library in the place of the built one.

usage: installed_test.py COMPILER PREFIX PROGRAM SOURCE_FOLDERS...
"""
import os
import pathlib
import subprocess
import sys


def included(compiler, prefix):
    """Deckle's headers that a line includes, found from the prefix; what is missing there is an error of the compiler."""
    line = pathlib.Path(__file__).parent / "line.h"
    command = [compiler, "-std=c++20", "-M", "-x", "c++", f"-I{prefix}/include", str(line)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{line} with {prefix}/include:\n{done.stderr}")
    paths = done.stdout.replace("\\\n", " ").replace("\\ ", "\0").split()  # a space in a path is quoted
    return [path.replace("\0", " ") for path in paths if "/deckle/" in path]


def main():
    compiler, prefix, program, sources = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4:]
    wrong, root = [], str(prefix / "include") + "/"
    headers = [path for path in included(compiler, prefix) if path.startswith(root)]
    for path in headers:
        name = path[len(root):]
        built = [pathlib.Path(folder) / name for folder in sources if (pathlib.Path(folder) / name).exists()]
        if not built or built[0].read_bytes() != pathlib.Path(path).read_bytes():
            wrong.append(f"{path} is not what the lines were compiled with: {built}")
    if len(headers) < 50:
        wrong.append(f"only {len(headers)} headers of {root} are included")
    libraries = [path.parent for path in prefix.rglob("libdeckle.so")]
    folders = [str(libraries[0]), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(folders), "LD_DEBUG": "libs"}
    done = subprocess.run([program], capture_output=True, text=True, env=environment)
    if f"{libraries[0]}/libdeckle.so" not in done.stderr:
        wrong.append(f"{program} does not load the library of {libraries[0]}")
    if done.returncode:
        wrong.append(f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr[-2000:]}")
    print("\n".join(wrong) or f"{len(headers)} headers and the library are those of the lines")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
