"""Puts mutants into the files of a room, all of them behind a switch or one alone, and finds whose copy does not compile."""

import re

from trial import UNIT_TESTS

# What is neither code nor a bracket: comments, strings, characters. A lifetime is no character.
QUIET = re.compile(r"""//[^\n]* | /\*.*?\*/ | b?c?r(\#*)".*?"\1 | [bc]?"(?:\\.|[^"\\])*" | b?'(?:\\.[^'\n]*|[^'\\\n])'""",
                   re.DOTALL | re.VERBOSE)

# Which mutant is on is asked once in a process; that a function was entered is written down once for each function.
SWITCH = """
#[doc(hidden)]
#[expect(missing_docs, reason = "planted")]
pub mod planted_mutants {
    use std::io::Write as _;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static ON: OnceLock<usize> = OnceLock::new();
    static NOTES: OnceLock<Option<std::ffi::OsString>> = OnceLock::new();
    static ENTERED: [AtomicBool; FUNCTIONS] = [const { AtomicBool::new(false) }; FUNCTIONS];

    pub fn on(function: usize) -> usize {
        if !ENTERED[function].load(Ordering::Relaxed) && !ENTERED[function].swap(true, Ordering::Relaxed) {
            if let Some(notes) = NOTES.get_or_init(|| std::env::var_os("PLANTED_MUTANT_NOTES")) {
                let mut notes = std::fs::File::options().create(true).append(true).open(notes).unwrap();
                notes.write_all(format!("{function}\\n").as_bytes()).unwrap();
            }
        }
        *ON.get_or_init(|| std::env::var("PLANTED_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0))
    }
}
"""


class Room:
    """The mutants of one crate, and its files as they were and as they are planted."""

    def __init__(self, name, tree, mutants):
        self.name, self.tree, self.mutants = name, tree, mutants
        self.unviable = set()
        manifest = tree / "crates" / name / "Cargo.toml"
        if UNIT_TESTS not in manifest.read_text():
            manifest.write_text(manifest.read_text() + f'\n[[test]]\nname = "{UNIT_TESTS}"\npath = "src/lib.rs"\n')
        self.owners = {}
        root = f"crates/{name}/src/lib.rs"
        self.texts = {file: (tree / file).read_text() for file in {root} | {mutant["file"] for mutant in mutants}}
        self.root = root
        self.starts = {file: line_starts(text) for file, text in self.texts.items()}
        self.switched = {mutant["number"] for mutant in mutants if self._can_switch(mutant)}
        self.functions = {}
        for mutant in mutants:
            if self.can_switch(mutant):
                self.functions.setdefault(self._key(mutant), len(self.functions))

    def can_switch(self, mutant):
        return mutant["number"] in self.switched

    def _can_switch(self, mutant):
        """Whether one program can hold both: not where the compiler runs the code, nor where the body is the type."""
        function = mutant["function"]
        if function is None or re.search(r"\bimpl\b", function["return_type"]):
            return False
        start, end = self._span(mutant["file"], function["span"])
        text = self.texts[mutant["file"]]
        body, _ = body_of(text, start, end)
        at, _ = self._span(mutant["file"], mutant["span"])
        return at >= body and not re.search(r"\bconst\s+(?:unsafe\s+)?fn\b", text[start:body])

    def function_of(self, mutant):
        return self.functions[self._key(mutant)]

    def plant(self):
        """Writes every file with all mutants that are not known to be unviable."""
        self.owners = {}
        for file, text in self.texts.items():
            planted = self._planted(file, text)
            if file == self.root:
                planted += SWITCH.replace("FUNCTIONS", str(max(1, len(self.functions))))
            self._write(file, planted)

    def plant_alone(self, mutant):
        """Writes the one file with this one change, as cargo-mutants does."""
        self.restore()
        start, end = self._span(mutant["file"], mutant["span"])
        text = self.texts[mutant["file"]]
        self._write(mutant["file"], text[:start] + mutant["replacement"] + text[end:])

    def restore(self):
        for file, text in self.texts.items():
            self._write(file, text)

    def blamed(self, errors):
        """The numbers of the mutants in whose copies the errors are; the nearest place of a macro counts."""
        found = set()
        for error in errors:
            for span in error["spans"]:
                while span:
                    owner = self.owners.get((span["file_name"], span["line_start"]))
                    if owner and span["is_primary"]:
                        found.add(owner)
                    span = span["expansion"] and span["expansion"]["span"] | {"is_primary": span["is_primary"]}
        return found

    def _planted(self, file, text):
        places = {}
        for mutant in self.mutants:
            if mutant["file"] == file and mutant["number"] not in self.unviable and self.can_switch(mutant):
                places.setdefault(self._key(mutant), []).append(mutant)
        pieces, line, done = [], 1, 0

        def add(piece, owner=None):
            nonlocal line
            if owner:
                self.owners |= {(file, line + n): owner for n in range(piece.count("\n") + 1)}
            line += piece.count("\n")
            pieces.append(piece)

        at = {key: body_of(text, *self._span(file, mutants[0]["function"]["span"])) for key, mutants in places.items()}
        for key, (start, end) in sorted(at.items(), key=lambda item: item[1]):
            add(text[done:start])
            done = start
            add(f"\nmatch crate::planted_mutants::on({self.functions[key]}) {{\n")
            for mutant in places[key]:
                first, last = self._span(file, mutant["span"])
                copy = text[start:first] + mutant["replacement"] + text[last:end]
                add(f"{mutant['number']} => return {{ {copy}\n}},", mutant["number"])
                add("\n")
            add("_ => {}\n}\n")
        add(text[done:])
        return "".join(pieces)

    def _key(self, mutant):
        start = mutant["function"]["span"]["start"]
        return mutant["file"], start["line"], start["column"]

    def _span(self, file, span):
        """Offsets of a span: lines and columns count from one, and columns count characters."""
        def offset(place):
            return self.starts[file][place["line"] - 1] + place["column"] - 1

        return offset(span["start"]), offset(span["end"])

    def _write(self, file, text):
        path = self.tree / file
        if path.read_text() != text:
            path.write_text(text)


def line_starts(text):
    return [0] + [at + 1 for at, character in enumerate(text) if character == "\n"]


def body_of(text, start, end):
    """Where the body of the function from start to end is, without its braces: the last outermost pair of them."""
    depth, opened, body, at = 0, start, None, start
    while at < end:
        if quiet := QUIET.match(text, at):
            at = quiet.end()
            continue
        if text[at] in "([{":
            if depth == 0:
                opened = at
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
            if depth == 0 and text[at] == "}":
                body = (opened + 1, at)
        at += 1
    return body
