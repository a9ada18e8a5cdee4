"""The site's fonts: Debian's, cut to the characters that technical text needs, as WOFF2."""

import pathlib
import re
import subprocess
import sys

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


def write(folder):
    """Makes the fonts below `folder`; those that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    running = []
    for name, source in FONTS.items():
        target = folder / f"{name}.woff2"
        if target.exists():
            continue
        if not pathlib.Path(source).exists():
            raise FileNotFoundError(f"{source}: install the packages of the section [docs] of tools/packages.txt")
        characters = MATH if name == "math" else CODE if name.startswith("mono") else LATIN
        command = [
            sys.executable,
            "-m",
            "fontTools.subset",
            source,
            f"--unicodes={characters}",
            "--flavor=woff2",
            "--layout-features=*",
            "--no-hinting",
            "--desubroutinize",
            f"--output-file={target}",
        ]
        running.append((source, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)))
    for source, process in running:
        errors = process.communicate()[1]
        if process.returncode:
            raise RuntimeError(f"{source}: {errors.strip()}")
