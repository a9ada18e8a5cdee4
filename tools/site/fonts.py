"""The site's fonts: Debian's, cut to the characters that technical text needs, as WOFF2."""

import os
import pathlib
import subprocess
import sys

import page as pages

TEX = "/usr/share/texmf/fonts/opentype/public/"
TYPE = "/usr/share/fonts/truetype/"
FONTS = {
    "text-regular": TEX + "tex-gyre/texgyrepagella-regular.otf",
    "text-italic": TEX + "tex-gyre/texgyrepagella-italic.otf",
    "text-bold": TEX + "tex-gyre/texgyrepagella-bold.otf",
    "mono-regular": TYPE + "jetbrains-mono/JetBrainsMono-Regular.ttf",
    "mono-bold": TYPE + "jetbrains-mono/JetBrainsMono-SemiBold.ttf",
    "plain": TYPE + "inter-vf/Inter-roman.var.ttf",
    "math": TEX + "tex-gyre-math/texgyrepagella-math.otf",
}
LATIN = "U+0020-007E,U+00A0-00FF,U+0131,U+0152-0153,U+02C6,U+02DC,U+2010-2027,U+2030-203A,U+20AC,U+2122,U+2190-2193,U+2212,U+00D7"
CODE = LATIN + ",U+0370-03FF,U+1D40,U+1D57,U+2070-209F,U+2200-22FF,U+2500-257F,U+25A0-25FF"
MATH = (
    LATIN
    + ",U+0300-036F,U+0370-03FF,U+2032-2037,U+2044,U+20D0-20FF,U+2100-214F,U+2190-21FF,U+2200-22FF,U+2308-230B,U+27E8-27E9"
    + ",U+23B0-23E1,U+1D400-1D7FF"
)


MADE = "made.txt"  # what each font was cut from, and to which characters


def names():
    """The files that write() makes."""
    return [*(f"{name}.woff2" for name in FONTS), MADE]


def characters_of(name):
    return MATH if name == "math" else CODE if name.startswith("mono") else LATIN


def write(folder):
    """Makes the fonts below `folder`; those that are there, of the same characters, stay."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / MADE
    lines = {name: f"{name} {source} {characters_of(name)}" for name, source in FONTS.items()}
    before = set(made.read_text().splitlines()) if made.exists() else set()
    running = []
    for name, source in FONTS.items():
        target = folder / f"{name}.woff2"
        if target.exists() and lines[name] in before:
            continue
        if not pathlib.Path(source).exists():
            raise pages.Refused(
                f"{source} is missing: install the packages of the section [docs] of tools/packages.txt, or give --no-fonts"
            )
        part = target.with_suffix(".part")  # a run that is interrupted leaves no half font under the font's name
        command = [
            sys.executable,
            "-m",
            "fontTools.subset",
            source,
            f"--unicodes={characters_of(name)}",
            "--flavor=woff2",
            "--layout-features=*",
            "--no-hinting",
            "--desubroutinize",
            f"--output-file={part}",
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        running.append((source, part, target, process))
    failed = []
    for source, part, target, process in running:
        errors = process.communicate()[1]
        if process.returncode:
            part.unlink(missing_ok=True)
            failed.append(f"{source}: {errors.strip()}")
        else:
            os.replace(part, target)
    if failed:
        raise pages.Refused("\n".join(failed))
    made.write_text("".join(line + "\n" for line in lines.values()))
