"""The folder of the site: only what the builder made there is ever removed."""

import pathlib

import page as pages

LIST = "assets/site_files.txt"
HEAD = "Files of this site. Those that are no longer made are removed when it is made again."


def check(out):
    """Refuses a folder with files in it that is no site."""
    if out.exists() and (not out.is_dir() or any(out.iterdir()) and made_before(out) is None):
        raise pages.Refused(f"{out} holds files that are no site: name an empty folder")


def made_before(out):
    """Names of the files that the last run made, or None if there was none."""
    listed = out / LIST
    lines = listed.read_text().splitlines() if listed.is_file() else []
    return lines[1:] if lines[:1] == [HEAD] else None


def prepare(out, names):
    """Removes what the last run made and this one does not; writes the list, before any file, for runs that are interrupted."""
    check(out)
    for name in set(made_before(out) or ()) - set(names):
        if not pathlib.PurePosixPath(name).is_absolute() and ".." not in name.split("/"):
            (out / name).unlink(missing_ok=True)
    (out / LIST).parent.mkdir(parents=True, exist_ok=True)
    (out / LIST).write_text("\n".join([HEAD, *sorted(names)]) + "\n")
