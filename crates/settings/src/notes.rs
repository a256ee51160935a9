//! Gathers what is wrong while a file is read, so that all of it is said at once.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use crate::fault::{Complaint, Fault, Faults};
use crate::format::Format;
use crate::place::Place;

/// Where faults and warnings are gathered while a file is read.
#[derive(Debug)]
pub struct Notes {
    format: &'static Format,
    file: PathBuf,
    line_starts: Vec<usize>,
    faults: RefCell<Vec<Fault>>,
    warnings: RefCell<Vec<Fault>>,
    obstacles: RefCell<Vec<Fault>>,
}

/// What is said of a file that can be used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Remarks {
    /// What is allowed but deserves a second look.
    pub warnings: Vec<Fault>,
    /// What keeps a part of it from working on this machine, now; the rest works.
    pub obstacles: Vec<Fault>,
}

impl Notes {
    pub(crate) fn on(format: &'static Format, file: &Path, text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self {
            format,
            file: file.to_owned(),
            line_starts: std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect(),
            faults: RefCell::default(),
            warnings: RefCell::default(),
            obstacles: RefCell::default(),
        }
    }

    pub(crate) fn format(&self) -> &'static Format {
        self.format
    }

    /// Whether something is wrong, as far as it was looked at.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        !self.faults.borrow().is_empty()
    }

    /// Notes what is wrong with another file that this one leads to; line 0 is the whole file.
    pub fn fault_in(&self, file: &Path, line: usize, message: impl Into<String>) {
        let fault = Fault {
            line,
            ..Fault::of_file(file, message, None)
        };
        self.faults.borrow_mut().push(fault);
    }

    pub(crate) fn fault(&self, place: &Place, complaint: Complaint) {
        let fault = self.located(place, complaint);
        // INVARIANT: one mistake is one fault; a syntax error and the value it mangled share a line.
        let syntax_on_line =
            |known: &Fault| known.file == fault.file && known.line == fault.line && known.key.is_empty();
        if !self.faults.borrow().iter().any(syntax_on_line) {
            self.faults.borrow_mut().push(fault);
        }
    }

    pub(crate) fn warn(&self, place: &Place, complaint: Complaint) {
        let warning = self.located(place, complaint);
        self.warnings.borrow_mut().push(warning);
    }

    pub(crate) fn obstacle(&self, place: &Place, complaint: Complaint) {
        let obstacle = self.located(place, complaint);
        self.obstacles.borrow_mut().push(obstacle);
    }

    /// The remarks, if nothing is wrong; else everything that is: this file first, each file in the order of its lines.
    /// What stands in the way of a part is told with the faults.
    pub(crate) fn finish(self) -> Result<Remarks, Faults> {
        let obstacles = self.obstacles.into_inner();
        let mut faults = self.faults.into_inner();
        if !faults.is_empty() {
            faults.extend(obstacles);
            faults.sort_by(|a, b| (a.file != self.file, &a.file, a.line).cmp(&(b.file != self.file, &b.file, b.line)));
            return Err(Faults::new(self.format.name, faults));
        }
        Ok(Remarks {
            warnings: self.warnings.into_inner(),
            obstacles,
        })
    }

    fn located(&self, place: &Place, complaint: Complaint) -> Fault {
        Fault {
            file: self.file.clone(),
            line: self.line_starts.partition_point(|start| *start <= place.at),
            key: place.path.clone(),
            message: complaint.message,
            hint: complaint.hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FORMAT: Format = Format {
        name: "test",
        keys: &[],
    };

    #[test]
    fn lines_are_counted_from_one() {
        let notes = Notes::on(&FORMAT, Path::new("x.toml"), "a\nbb\n\nc");
        for (offset, line) in [(0, 1), (1, 1), (2, 2), (4, 2), (5, 3), (6, 4), (99, 4)] {
            let place = Place::root().key("k", offset);
            assert_eq!(notes.located(&place, Complaint::new("")).line, line, "{offset}");
        }
    }

    #[test]
    fn this_file_comes_first_and_the_others_by_name() {
        let notes = Notes::on(&FORMAT, Path::new("m.toml"), "a\nb\n");
        notes.fault_in(Path::new("z"), 1, "z");
        notes.fault_in(Path::new("a"), 2, "a2");
        notes.fault_in(Path::new("a"), 1, "a1");
        notes.fault(&Place::root().key("k", 2), Complaint::new("m2"));
        notes.fault(&Place::root().key("k", 0), Complaint::new("m1"));
        let faults = notes.finish().expect_err("faulty");
        let told: Vec<&str> = faults.as_slice().iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(told, ["m1", "m2", "a1", "a2", "z"]);
    }
}
