#!/usr/bin/env python3
"""Checks the rules of place: who may include what, where families, printing and environment
variables may be named, how long a file may be. The rules are data, in tools/layers.json.

Usage: tools/check_layers.py [ROOT]     exit 0 when every rule holds, 1 with one line per violation
"""

import json
import os
import re
import sys
from pathlib import Path

CPP = (".h", ".cc", ".cu", ".cuh")
SOURCE = CPP + (".rs", ".py", ".cmake", ".sh")
# Where our own sources are; everything else (build trees, wheels, fixtures) is not looked at.
SOURCE_FOLDERS = ("tessera", "apps", "rust/src", "rust/include", "tests", "benchmarks", "examples",
                  "tools", "scripts", "cmake")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\s*\(|\b(?:set|put|unset)env\s*\(|\benv::vars?(?:_os)?\s*\(")
PRINTING = re.compile(
    r"\bstd::(?:cout|cerr|clog)\b|\bstd(?:out|err)\b(?!\s*\()|(?<![\w.>])(?:v?printf|puts|putchar|perror)\s*\(|"
    r"\b(?:std|fmt)::print(?:ln)?\s*\(|\b(?:e?println|e?print|dbg)!\s*[(\[{]")
BARE_TODO = re.compile(r"\b(?:TODO|FIXME)\b(?!\(#?\d+\))")
# Comments, then string and character literals. A raw string ends at its own delimiter; a Rust
# lifetime ('a) is no literal because the closing quote is missing.
TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.[^'\n]*|[^'\\\n])'",
    re.DOTALL)


def blank(text):
    """Spaces in place of `text`, line breaks kept, so that positions stay true."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return TOKENS.sub(lambda m: blank(m[0]) if m[0][0] == "/" else m[0], text)


def without_comments_and_strings(text):
    return TOKENS.sub(lambda m: blank(m[0]), text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


class Rules:
    """tools/layers.json with its patterns compiled."""

    def __init__(self, data):
        self.data = data
        self.externals = {name: [re.compile(p + r"\Z") for p in patterns]
                          for name, patterns in data["externals"].items()}
        self.family = self._family_pattern()

    def _family_pattern(self):
        # A family is named in lower case (qwen3), capitalized inside an identifier (QwenBlock) or in
        # capitals; a longer lower-case word (philox, granites) is another word.
        parts = []
        for name in self.data["family_names"]:
            lower = re.escape(name)
            parts.append(rf"(?<![A-Za-z]){lower}(?![a-z])")
            parts.append(rf"(?<![A-Z]){re.escape(name.capitalize())}(?![a-z])")
            parts.append(rf"(?<![A-Za-z]){re.escape(name.upper())}(?![A-Za-z])")
        parts += [re.escape(name) for name in self.data["family_spellings"]]
        return re.compile("|".join(parts))

    def group_of(self, header):
        """The externals group of a header, or None."""
        for name, patterns in self.externals.items():
            if name != "std" and any(p.match(header) for p in patterns):
                return name
        return "std" if any(p.match(header) for p in self.externals["std"]) else None


def matches_any(patterns, path):
    return any(re.fullmatch(p, path) for p in patterns)


class Checker:
    """Walks one tree and collects violations ("path:line: what") and warnings."""

    def __init__(self, root, rules):
        self.root = Path(root)
        self.rules = rules
        self.errors = []
        self.warnings = []
        self.n_files = 0

    def run(self):
        for top in SOURCE_FOLDERS:
            for folder, names, files in os.walk(self.root / top):
                names[:] = sorted(n for n in names if not n.startswith(".") and n != "__pycache__")
                self.check_folder(folder)
                for name in sorted(files):
                    path = Path(folder) / name
                    if name.endswith(SOURCE) or name == "CMakeLists.txt" or top == "scripts":
                        self.check_file(path.relative_to(self.root).as_posix(), path)
        return self

    def error(self, path, line, what):
        self.errors.append(f"{path}:{line}: {what}")

    def check_folder(self, folder):
        name = os.path.basename(folder)
        if name in self.rules.data["forbidden_folder_names"]:
            path = os.path.relpath(folder, self.root)
            self.error(path, 1, f"folder named '{name}'; expected the name of the concept it holds")

    def check_file(self, path, absolute):
        text = absolute.read_text(encoding="utf-8", errors="replace")
        self.n_files += 1
        self.check_size(path, text)
        if not path.startswith("tools/"):  # the tools speak about the word
            for match in BARE_TODO.finditer(text):
                self.error(path, line_of(text, match.start()), "bare TODO; expected TODO(issue-number)")
        is_library = path.startswith(("tessera/", "apps/", "rust/src/")) and path.endswith(CPP + (".rs",))
        if not is_library:
            return
        code = without_comments(text)
        bare_code = without_comments_and_strings(text)
        self.check_places(path, code, bare_code)
        if path.endswith(CPP):
            for match in INCLUDE.finditer(code):
                self.check_include(path, line_of(code, match.start()), match[2])

    def check_size(self, path, text):
        sizes = self.rules.data["sizes"]
        n_lines = text.count("\n")
        limit = sizes["fail_tests"] if path.startswith("tests/") else sizes["fail"]
        if any(re.fullmatch(entry["files"], path) for entry in sizes["allowed"]):
            return
        if n_lines > limit:
            self.error(path, n_lines, f"{n_lines} lines; expected at most {limit}")
        elif n_lines > sizes["warn"] and not path.startswith("tests/"):
            self.warnings.append(f"{path}: {n_lines} lines; consider a split from {sizes['warn']} on")

    def check_places(self, path, code, bare_code):
        data = self.rules.data
        allowed = data["family_places"] + [entry["files"] for entry in data["family_allowed"]]
        if not matches_any(allowed, path):
            for match in self.rules.family.finditer(code):
                self.error(path, line_of(code, match.start()),
                           f"model family '{match[0]}' is named outside tessera/models/")
        if not matches_any(data["environment_places"], path):
            for match in ENVIRONMENT.finditer(bare_code):
                self.error(path, line_of(bare_code, match.start()),
                           "environment variable outside tessera/base/env; expected base::env()")
        if not matches_any(data["printing_places"], path):
            for match in PRINTING.finditer(bare_code):
                self.error(path, line_of(bare_code, match.start()),
                           f"'{match[0].strip()}' prints outside apps/")

    def check_include(self, path, line, header):
        """One #include of a file under tessera/ or apps/."""
        owner = self.owner_of(path)
        target, kind = self.target_of(path, header)
        if kind == "unknown":
            self.error(path, line, f"unknown external header '{header}'; "
                                   "expected one that an `externals` group of tools/layers.json lists")
            return
        if owner == "text_api":
            if kind not in ("text_api",) and target not in ("std",):
                self.error(path, line, f"a text-level header includes '{header}'; "
                                       "expected standard headers and tessera/*.h only")
            return
        if owner is None:
            self.error(path, line, "the folder is missing in tools/layers.json")
            return
        if not self.is_allowed(owner, target, kind, header):
            self.error(path, line, f"{owner} may not include '{header}'")
            return
        for rule in self.rules.data["narrower"]:
            if not re.fullmatch(rule["files"], path) or kind == "text_api" or target in ("std", "posix"):
                continue
            short = target.split("/")[-1]
            own_ok = target == owner
            if target in rule.get("denied", ()) or \
                    ("allowed" in rule and not own_ok and short not in rule["allowed"]):
                self.error(path, line, f"may not include '{header}': {rule['reason']}")

    def owner_of(self, path):
        if re.fullmatch(r"tessera/[^/]+\.(h|cc)", path):
            return "text_api"
        folder = "/".join(path.split("/")[:2])
        return folder if folder in self.rules.data["folders"] else None

    def target_of(self, path, header):
        """What a header belongs to: (folder or externals group or header name, kind)."""
        text_header = re.fullmatch(r"tessera/([^/]+)", header)
        if text_header:
            return text_header[1], "text_api"
        if header.startswith(("tessera/", "apps/")):
            folder = "/".join(header.split("/")[:2])
            return (folder, "folder") if folder in self.rules.data["folders"] else (header, "unknown")
        group = self.rules.group_of(header)
        if group and (group != "std" or "." not in header):
            return group, "external"
        # A quoted name beside the file itself, such as a per-target "-inl.h".
        if (self.root / path).parent.joinpath(header).exists():
            return self.owner_of(path) or "", "folder"
        return (group, "external") if group else (header, "unknown")

    def is_allowed(self, owner, target, kind, header):
        data = self.rules.data
        allowed = data["folders"][owner]
        if kind == "external":
            return target in data["everyone"] or target in allowed
        if kind == "folder":
            if target == owner or target in allowed:
                return True
            return target.startswith("tessera/") and target.split("/")[1] in allowed
        if "text_api" in allowed:
            return target in data["text_headers"]
        entry = data["text_headers"].get(target)
        if entry is None:
            return False
        implementer = entry["implemented_by"]
        if implementer == owner or implementer.split("/")[1] in allowed:
            return True
        shared = entry.get("shared", ())
        return shared == "all" or owner in shared


def main(arguments):
    here = Path(__file__).resolve().parent
    root = Path(arguments[0]) if arguments else here.parent
    rules = Rules(json.loads((here / "layers.json").read_text(encoding="utf-8")))
    checker = Checker(root, rules).run()
    for warning in checker.warnings:
        print(f"warning: {warning}")
    for error in checker.errors:
        print(f"error: {error}")
    print(f"check_layers: {checker.n_files} files, {len(checker.errors)} violations, "
          f"{len(checker.warnings)} warnings")
    return 1 if checker.errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
