//! What can be called: servers and the tools they offer.

use std::fmt;
use std::sync::Arc;

/// Why a name was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameFault {
    /// A server id is lower-case letters, digits and `-`, 1 to 32 of them.
    #[error("a server id is 1 to 32 characters of a-z, 0-9 and `-`")]
    ServerId,
    /// The id `portreeve` belongs to the gateway itself.
    #[error("the name `portreeve` is reserved for built-in tools")]
    Reserved,
    /// A tool name is 1 to 128 characters: visible ASCII, and letters and digits of any script.
    #[error("a tool name is 1 to 128 characters: visible ASCII, and letters and digits of any script")]
    ToolName,
}

/// The operator's name for a server: `[a-z0-9-]{1,32}`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ServerId(Arc<str>);

impl ServerId {
    /// Reads a server id.
    ///
    /// # Errors
    /// When it has other characters, another length, or is reserved.
    pub fn parse(text: &str) -> Result<Self, NameFault> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if text == "portreeve" {
            return Err(NameFault::Reserved);
        }
        if (1..=32).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(NameFault::ServerId)
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tool's name as its server gave it, fit to be shown and recorded.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Reads a tool name.
    ///
    /// # Errors
    /// When it is empty, too long, or holds what could forge a mark or a line.
    pub fn parse(text: &str) -> Result<Self, NameFault> {
        // Letters that show nothing: they are letters to Unicode, and a disguise to everybody else.
        let filler = |c: char| matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}');
        let visible = |c: char| c.is_ascii_graphic() || (c.is_alphanumeric() && !filler(c));
        // On its server's own route it would be taken for one of ours.
        if text.starts_with("portreeve__") {
            return Err(NameFault::Reserved);
        }
        if (1..=128).contains(&text.chars().count()) && text.chars().all(visible) {
            Ok(Self(text.into()))
        } else {
            Err(NameFault::ToolName)
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One tool of one server; displays as `server/tool`, its id in policies.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ToolId {
    /// The server that offers it.
    pub server: ServerId,
    /// Its name there.
    pub name: ToolName,
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.name)
    }
}

/// Why a tool may be taken for another server's, or is set against it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shadowing {
    /// Its name has letters of scripts that nobody writes together.
    MixedScripts,
    /// Its name is another one and looks the same.
    LooksLike(ToolId),
    /// Its definition tells models what to do with that tool.
    OrdersAbout(ToolId),
}

impl fmt::Display for Shadowing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MixedScripts => f.write_str("its name mixes scripts"),
            Self::LooksLike(other) => write!(f, "its name looks like that of {other}"),
            Self::OrdersAbout(other) => write!(f, "its definition gives orders about {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_ids_hold_no_underscore_so_that_the_first_double_one_splits() {
        assert!(ServerId::parse("files-2").is_ok());
        for bad in ["", "a_b", "Files", "a/b", "x".repeat(33).as_str()] {
            assert_eq!(ServerId::parse(bad), Err(NameFault::ServerId), "{bad}");
        }
        assert_eq!(ServerId::parse("portreeve"), Err(NameFault::Reserved));
        assert_eq!(ToolName::parse("portreeve__read_cache"), Err(NameFault::Reserved));
    }

    #[test]
    fn tool_names_hold_nothing_that_forges_a_mark_or_a_line() {
        assert!(ToolName::parse("get/weather.v2").is_ok() && ToolName::parse("größe_測量").is_ok());
        for bad in [
            "",
            "a\nb",
            "a b",
            "«x",
            "x".repeat(129).as_str(),
            "a\u{85}",
            "a\u{202e}b",
            "a\u{200b}",
            "\u{3164}",
            "a\u{e0041}",
        ] {
            assert_eq!(ToolName::parse(bad), Err(NameFault::ToolName), "{bad}");
        }
    }
}
