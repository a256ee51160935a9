//! What the text of a path says, before anybody looks at a disk: whether it stays where files are allowed, however it is
//! read. What a server could take for `..`, for a separator or for another root is refused, not cleaned: a path that passes
//! means the same to everybody who reads it.
//! ADR 0071: paths and hosts.

use std::fmt;

use crate::result::strip::class_of;

/// Where the paths of a call may lead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The server's working directory, without links in it.
    pub workspace: String,
    /// Further directories that it may read.
    pub read: Vec<String>,
}

/// The directory that a path is beneath.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The workspace.
    Workspace,
    /// One of those that may be read, by its position.
    Read(usize),
}

/// Why a path is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PathFault {
    TooLong,
    Control,
    Separator,
    Drive,
    LookAlike,
    Encoded,
    Home,
    Url,
    Hidden,
    Parent,
    Outside,
    /// It leads out on the disk.
    LeadsOut,
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "is longer than any path can be",
            Self::Control => "holds a control character",
            Self::Separator => "holds a backslash",
            Self::Drive => "begins with a drive letter",
            Self::LookAlike => "holds a character that only looks like `/`, `\\` or `.`",
            Self::Encoded => "holds an encoded separator, dot, colon, `~` or control character",
            Self::Home => "begins with `~`",
            Self::Url => "is a URL",
            Self::Hidden => "begins with blanks, quotes or hidden characters before what it means",
            Self::Parent => "has a part that is `..` or could be read so",
            Self::Outside => "is absolute and lies elsewhere",
            Self::LeadsOut => "leads out through a link, or cannot be followed to its end",
        })
    }
}

/// The longest path and the longest name that Linux takes.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;

/// Judges the text of a path: the directory it is beneath, and the way from there; nothing where there is no directory to be
/// beneath.
pub(super) fn judge<'t>(text: &'t str, bounds: Option<&Bounds>) -> Result<Option<(Base, &'t str)>, PathFault> {
    if text.len() > LONGEST_PATH || text.split('/').any(|name| name.len() > LONGEST_NAME) {
        return Err(PathFault::TooLong);
    }
    if !is_plain(text) {
        characters(text)?;
        encodings(text)?;
        beginning(text)?;
    }
    names(text)?;
    beneath(text, bounds)
}

/// Letters, digits and signs that mean nothing to anybody but `/` and `.`.
fn is_plain(text: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-' | b'+' | b'@' | b',');
    text.bytes().all(plain)
}

fn characters(text: &str) -> Result<(), PathFault> {
    let fault = |found: char| match found {
        '\\' => Some(PathFault::Separator),
        '\u{2028}' | '\u{2029}' => Some(PathFault::Control),
        _ if found.is_control() => Some(PathFault::Control),
        _ if is_separator_alike(found) => Some(PathFault::LookAlike),
        _ => None,
    };
    text.chars().find_map(fault).map_or(Ok(()), Err)
}

/// What looks like a slash or a backslash, or becomes one by normalisation. Letters that do (`ノ`) are letters.
fn is_separator_alike(found: char) -> bool {
    matches!(
        found,
        '\u{2044}'
            | '\u{2215}'
            | '\u{2571}'
            | '\u{27cb}'
            | '\u{29f8}'
            | '\u{ff0f}'
            | '\u{2afb}'
            | '\u{2afd}'
            | '\u{2216}'
            | '\u{2572}'
            | '\u{27cd}'
            | '\u{29f5}'
            | '\u{29f9}'
            | '\u{fe68}'
            | '\u{ff3c}'
    )
}

/// How many dots a character is, or looks like.
fn dots(found: char) -> usize {
    match found {
        '.' | '\u{2024}' | '\u{fe52}' | '\u{ff0e}' | '\u{3002}' | '\u{ff61}' | '\u{fe12}' | '\u{a4f8}' | '\u{6d4}'
        | '\u{701}' | '\u{702}' | '\u{1d16d}' => 1,
        '\u{2025}' | '\u{fe30}' | '\u{a4fa}' => 2,
        '\u{2026}' | '\u{fe19}' | '\u{22ef}' => 3,
        _ => 0,
    }
}

/// Percent escapes, decoded until nothing changes. An escape of a letter is let be: a name may well hold one.
fn encodings(text: &str) -> Result<(), PathFault> {
    let mut text = text.to_owned();
    for _ in 0..MOST_ROUNDS {
        let Some(decoded) = decoded(text.as_bytes())? else {
            return Ok(());
        };
        if decoded.windows(2).any(is_overlong) {
            return Err(PathFault::Encoded);
        }
        text = String::from_utf8_lossy(&decoded).into_owned();
        let harmless = characters(&text).is_ok() && beginning(&text).is_ok() && names(&text).is_ok();
        if !harmless {
            return Err(PathFault::Encoded);
        }
    }
    Err(PathFault::Encoded)
}

/// Whether these begin a character in more bytes than it needs.
fn is_overlong(bytes: &[u8]) -> bool {
    matches!(bytes, [0xe0, 0x80..=0x9f] | [0xf0, 0x80..=0x8f])
}

/// More often than this nobody encodes.
const MOST_ROUNDS: usize = 6;

/// The bytes behind percent escapes; `None` where there are none.
fn decoded(text: &[u8]) -> Result<Option<Vec<u8>>, PathFault> {
    let mut bytes = Vec::new();
    let (mut rest, mut found) = (text, false);
    while let Some((first, after)) = rest.split_first() {
        let escape = if *first == b'%' { escape(after) } else { None };
        rest = match escape {
            Some((value, after)) => {
                found = true;
                bytes.push(meant(value)?);
                after
            }
            None => {
                bytes.push(*first);
                after
            }
        };
    }
    Ok(found.then_some(bytes))
}

/// The value of `XX` or `uXXXX`, and what is behind it.
fn escape(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = match text.split_first() {
        Some((b'u' | b'U', after)) => after.split_at_checked(4)?,
        _ => text.split_at_checked(2)?,
    };
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

/// A byte that was worth an escape and means nothing; bytes that only an overlong encoding begins with are refused.
fn meant(value: u32) -> Result<u8, PathFault> {
    match u8::try_from(value) {
        Ok(b'/' | b'\\' | b'.' | b':' | b'~' | 0..=0x1f | 0x7f | 0xc0 | 0xc1 | 0xf5..=0xff) | Err(_) => {
            Err(PathFault::Encoded)
        }
        Ok(byte) => Ok(byte),
    }
}

/// Roots that are none of ours: a home directory, a drive, a URL; also behind what a server may trim away.
fn beginning(text: &str) -> Result<(), PathFault> {
    let bare = text.trim_start_matches(is_trimmed);
    if bare.starts_with('~') {
        return Err(PathFault::Home);
    }
    let letters = bare
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
        .count();
    if let Some((scheme, rest)) = bare.split_at_checked(letters)
        && let Some(rest) = rest.strip_prefix(':')
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
    {
        if scheme.len() == 1 {
            return Err(PathFault::Drive);
        }
        if rest.starts_with('/') || scheme.eq_ignore_ascii_case("file") {
            return Err(PathFault::Url);
        }
    }
    if bare.len() != text.len() && bare.starts_with('/') {
        return Err(PathFault::Hidden);
    }
    Ok(())
}

/// What a server may take away around a path or a part of one.
fn is_trimmed(found: char) -> bool {
    found.is_whitespace() || matches!(found, '"' | '\'' | '`' | '<' | '>') || is_hidden(found)
}

fn is_hidden(found: char) -> bool {
    class_of(u32::from(found)).is_some()
}

/// No part is `..`, or could be after somebody trimmed, normalised or cut it. `./...`, which means everything below, is none.
fn names(text: &str) -> Result<(), PathFault> {
    let mut parts = text.split('/').peekable();
    while let Some(name) = parts.next() {
        match name {
            "" | "." => {}
            "..." if parts.peek().is_none() => {}
            _ if is_dots(name) => return Err(PathFault::Parent),
            _ => {}
        }
    }
    Ok(())
}

fn is_dots(name: &str) -> bool {
    let cut = name.split(';').next().unwrap_or_default();
    let mut count = 0;
    for found in cut.chars() {
        match dots(found) {
            0 if is_trimmed(found) => {}
            0 => return false,
            more => count += more,
        }
    }
    count > 0
}

fn beneath<'t>(text: &'t str, bounds: Option<&Bounds>) -> Result<Option<(Base, &'t str)>, PathFault> {
    let Some(bounds) = bounds else {
        return match text.starts_with('/') {
            true => Err(PathFault::Outside),
            false => Ok(None),
        };
    };
    if !text.starts_with('/') {
        return Ok(Some((Base::Workspace, or_here(text))));
    }
    if let Some(rest) = below(text, &bounds.workspace) {
        return Ok(Some((Base::Workspace, or_here(rest))));
    }
    let mut read = bounds.read.iter().enumerate();
    let found = read.find_map(|(index, root)| Some((Base::Read(index), or_here(below(text, root)?))));
    found.map(Some).ok_or(PathFault::Outside)
}

/// What is left of an absolute path below a directory, both without empty parts and `.`.
fn below<'t>(text: &'t str, root: &str) -> Option<&'t str> {
    let mut rest = text;
    for wanted in root.split('/').filter(|part| !matches!(*part, "" | ".")) {
        rest = here(rest);
        let end = rest.find('/').unwrap_or(rest.len());
        let (part, after) = rest.split_at_checked(end)?;
        if part != wanted {
            return None;
        }
        rest = after;
    }
    Some(here(rest))
}

/// Without slashes and `./` in front.
fn here(mut text: &str) -> &str {
    loop {
        let bare = text.trim_start_matches('/');
        let bare = bare.strip_prefix("./").unwrap_or(bare);
        if bare.len() == text.len() {
            return text;
        }
        text = bare;
    }
}

fn or_here(text: &str) -> &str {
    if text.is_empty() { "." } else { text }
}

#[cfg(test)]
mod tests;
