"""Results of benchmarks, what they measure, and where they come from."""

import functools
import json
import re
import subprocess

from parts.measures import changes_code, MEASURES, PROSE

AGE = "**Older than the code it measures.**"
# Results that were kept before their facts were complete, and what each lacks; measured anew, a result leaves this list. Those of
# another machine are FOLDER/NAME.
LOAD = "what other processes used meanwhile was not measured"
INCOMPLETE = {
    "attention_cpu": LOAD,
    "attention_cuda_flash4": LOAD + ": the host compiled other programs, so compare within it alone; its command was not kept",
    "attention_cuda_choices": LOAD + ", and the runs of no commit are trials of kernels that were not kept",
}


def facts(result):
    """Machine, commit, date of a result. Those of the GPU runs hold them in one line."""
    machine, commit, date = (result.get(key) for key in ("machine", "commit", "date"))
    if machine and not commit:
        found = re.fullmatch(r"(.*), commit (.+?), (\d{4}-\d\d-\d\d.*)", machine)
        machine, commit, date = found.groups() if found else (machine, None, None)
    return {"machine": machine, "commit": commit, "date": date}


def is_fact(key, value):
    """Whether a machine, a commit or a date can be what it says."""
    if not isinstance(value, str) or not value or value.endswith("?"):
        return False
    if key == "date":
        return re.match(r"20\d\d-[01]\d-[0-3]\d", value) is not None
    return key != "commit" or re.match(r"[0-9a-f]{7,40}(?![\w+])", value) is not None


@functools.cache
def changed_since(root, name, commit):
    """Whether code that a result measures has changed: in the working tree, so that who changes it can mark it."""
    paths = [*MEASURES[name], *([] if name == "reference_site" else PROSE)]
    with subprocess.Popen(["git", "-C", root, "diff", "--unified=0", "--no-color", "--no-ext-diff", commit, "--", *paths],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace") as diff:
        changed = changes_code(diff.stdout)
        diff.kill()
    return changed


class Results:
    def __init__(self, root, machine=""):
        self.root, self.machine, self.folder = root, machine, root / "benchmarks/results" / machine

    def path(self, name):
        return (self.folder / f"{name}.json").relative_to(self.root)

    def read(self, name):
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def git(self, *arguments):
        done = subprocess.run(["git", "-C", self.root, *arguments], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    def foreign(self, result):
        """What of a result, or of its rows, names a commit that is none of this history, where there is one."""
        if not self.has_history():
            return
        parts = [result, *(row for row in result.get("rows", []) if isinstance(row, dict) and "commit" in row)]
        for commit in dict.fromkeys(facts(part)["commit"] for part in parts):
            if is_fact("commit", commit) and self.git("merge-base", "--is-ancestor", commit, "HEAD") is None:
                yield f"its commit {commit} is not in this history"

    def has_history(self):
        """Whether commits of results are here, so that their age can be known."""
        return self.git("rev-parse", "HEAD") is not None and self.git("rev-parse", "--is-shallow-repository") == "false"

    def age(self, name, commit):
        """A mark where code that was measured is not that of the commit any more."""
        return AGE if self.has_history() and MEASURES[name] and changed_since(self.root, name, commit.split("+")[0]) else ""

    def lacking(self, name):
        """What INCOMPLETE says of a result, as a sentence, or nothing."""
        words = INCOMPLETE.get("/".join(filter(None, (self.machine, name))))
        return f"**Its source is not complete:** {words}." if words else ""

    def source(self, name):
        """The lines under a figure."""
        result = self.read(name)
        known = facts(result)
        words = f"`{self.path(name)}`: {known['machine']}; commit {known['commit']}, {known['date']}"
        if result.get("command"):
            words += f"; `{result['command'].strip()}`"
        words += "."
        if "others" in result:
            words += f" Other processes used {100 * result['others']:.1f} % of the processors meanwhile."
        elif "load_at_start" in result:
            words += f" The load at the start was {result['load_at_start']:.1f}."
        age = self.age(name, known["commit"])
        return f"{words} {self.lacking(name)}".rstrip() + "\n" + (age + "\n" if age else "")

    def line(self, name):
        """The same for the foot of a plot, which does not age."""
        known = facts(self.read(name))
        return f"{known['machine']}; commit {known['commit']}, {known['date']}; {self.path(name)}"
