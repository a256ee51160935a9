//! Why an output goes no further. Whoever takes an output and whoever judges it say so in the same words.

use ledger::AttemptClass;
use schema::Violation;
use screening::result::strip::Class;
use vocabulary::Digest;

/// What a guard found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// More bytes than allowed.
    Size,
    /// Nested deeper than allowed.
    Depth,
    /// A link, a pipe, a device, a directory.
    NotARegularFile,
    /// A file with a second name.
    Linked,
    /// It cannot be opened.
    Unreadable,
    /// Text of a refused class.
    Text(Class),
    /// A secret.
    Secret,
    /// Something held standard output open.
    Unfinished,
}

impl Guard {
    /// The word in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Depth => "depth",
            Self::NotARegularFile => "not_a_regular_file",
            Self::Linked => "linked",
            Self::Unreadable => "unreadable",
            Self::Text(Class::Ansi) => "text_ansi",
            Self::Text(Class::C0C1) => "text_c0c1",
            Self::Text(Class::Bidi) => "text_bidi",
            Self::Text(Class::ZeroWidth) => "text_zero_width",
            Self::Secret => "secret",
            Self::Unfinished => "unfinished",
        }
    }
}

/// Why an output goes no further: in words of ours and of the schema, none of the output's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The class of the attempt.
    pub class: AttemptClass,
    /// The guard that was broken.
    pub guard: Option<Guard>,
    /// What is wrong, up to [`MOST_VIOLATIONS`].
    pub violations: Vec<Violation>,
}

/// So many violations are counted at most; fewer are told.
pub const MOST_VIOLATIONS: usize = 100;

impl Refusal {
    /// A broken guard.
    #[must_use]
    pub fn guard(guard: Guard, expected: &str) -> Self {
        Self {
            class: AttemptClass::GuardViolation,
            guard: Some(guard),
            violations: vec![violation(guard.as_str(), expected)],
        }
    }

    /// A class about which there is no more to say.
    pub(crate) fn bare(class: AttemptClass) -> Self {
        Self {
            class,
            guard: None,
            violations: Vec::new(),
        }
    }

    /// More bytes than allowed.
    pub(crate) fn too_large() -> Self {
        Self::guard(Guard::Size, "the output is too large")
    }

    /// No output at all.
    #[must_use]
    pub fn no_output() -> Self {
        Self {
            class: AttemptClass::NoOutput,
            guard: None,
            violations: vec![violation("output", "the output is missing or empty")],
        }
    }

    pub(crate) fn not_json(why: &str) -> Self {
        Self {
            class: AttemptClass::NotJson,
            guard: None,
            violations: vec![violation("json", why)],
        }
    }

    /// Equal for equal mistakes.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        let mut text = self.class.as_str().to_owned();
        for violation in &self.violations {
            for part in [&violation.path, &violation.keyword, &violation.expected] {
                text.push('\u{1f}');
                text.push_str(part);
            }
        }
        Digest::of(text.as_bytes())
    }
}

fn violation(keyword: &str, expected: &str) -> Violation {
    Violation {
        path: "/".to_owned(),
        keyword: keyword.to_owned(),
        expected: expected.to_owned(),
    }
}
