//! Size, depth and balance of raw bytes, and what the top level says of the result.

use vocabulary::json::balance::{Unbalanced, balance};
use vocabulary::json::scanned::{Named, Scanned};

use super::{Guards, Said};

/// Which guard was broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Breach {
    TooLarge,
    TooDeep,
    /// Not UTF-8, a bracket or a quote without its partner, or nothing at all.
    Malformed,
}

/// What the loop saw on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    /// `"isError": true` stands at the top level.
    pub(super) is_error: bool,
    /// What `resultType` at the top level says.
    pub(super) result_type: Said,
}

/// The same of bytes that were read through before: nothing is left to do but to compare.
pub(super) fn judge(scanned: &Scanned, guards: &Guards) -> Result<Seen, Breach> {
    if scanned.bytes().len() > guards.max_bytes {
        return Err(Breach::TooLarge);
    }
    if scanned.depth() > guards.max_depth {
        return Err(Breach::TooDeep);
    }
    let is_error = match scanned.member("isError") {
        Named::Never => false,
        Named::Once(raw) => raw == b"true",
        Named::Again => return Err(Breach::Malformed),
    };
    let result_type = match scanned.member("resultType") {
        Named::Never => Said::Nothing,
        Named::Once(b"\"complete\"") => Said::Complete,
        Named::Once(_) => Said::Otherwise,
        Named::Again => return Err(Breach::Malformed),
    };
    Ok(Seen { is_error, result_type })
}

/// Goes once over `bytes`.
pub(super) fn scan(bytes: &[u8], guards: &Guards) -> Result<Seen, Breach> {
    if bytes.len() > guards.max_bytes {
        return Err(Breach::TooLarge);
    }
    let (mut is_error, mut result_type) = (None, Said::Nothing);
    let balanced = balance(bytes, guards.max_depth, |string| {
        // Said twice, one reader takes the first and another the last.
        let twice = if string.is("isError") {
            let Some(value) = string.value() else { return Ok(()) };
            is_error.replace(value.starts_with(b"true")).is_some()
        } else if string.is("resultType") {
            let Some(value) = string.value() else { return Ok(()) };
            let said = match value.starts_with(b"\"complete\"") {
                true => Said::Complete,
                false => Said::Otherwise,
            };
            std::mem::replace(&mut result_type, said) != Said::Nothing
        } else {
            false
        };
        if twice { Err(Unbalanced::Malformed) } else { Ok(()) }
    });
    balanced.map_err(|fault| match fault {
        Unbalanced::TooDeep => Breach::TooDeep,
        Unbalanced::Malformed => Breach::Malformed,
    })?;
    Ok(Seen {
        is_error: is_error.unwrap_or(false),
        result_type,
    })
}
