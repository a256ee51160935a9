//! Carries results, errors and log levels from one era to the other. `content` and
//! `structuredContent` change in no case.

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::method::Method;
use crate::mrtr::{ResultType, result_type_of};
use crate::splice::{Splice, SpliceFault};
use crate::task::RELATED_TASK;

/// Whether the modern era wants cache hints on a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultKind {
    /// `server/discover`, the four lists, `resources/read`.
    Cacheable,
    /// All others.
    Plain,
}

impl ResultKind {
    /// The kind of the result that a method has.
    #[must_use]
    pub fn of(method: &Method) -> Self {
        match method {
            Method::Discover
            | Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::TemplatesList
            | Method::ResourcesRead => Self::Cacheable,
            Method::Initialize
            | Method::Ping
            | Method::ToolsCall
            | Method::Subscribe
            | Method::Unsubscribe
            | Method::PromptsGet
            | Method::Complete
            | Method::SetLevel
            | Method::Listen
            | Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksCancel
            | Method::TasksResult
            | Method::TasksList
            | Method::Other(_) => Self::Plain,
        }
    }
}

/// Makes a server's result, of either era, one for a modern client. What is there already stays,
/// except that a cacheable result is always private: access is decided per principal.
///
/// `server_info` is the raw JSON for `_meta["io.modelcontextprotocol/serverInfo"]`.
///
/// # Errors
/// When the result is no object, or names a member twice.
pub fn for_modern(result: &Bytes, kind: ResultKind, server_info: &[u8]) -> Result<Bytes, SpliceFault> {
    let mut splice = Splice::new(result)?;
    let complete = result_type_of(splice.raw("resultType")) == ResultType::Complete;
    splice.insert_if_absent("resultType", b"\"complete\"".as_slice());
    // Only complete results carry the hints, but nobody may share one of another type either.
    if kind == ResultKind::Cacheable && complete {
        if !splice.raw("ttlMs").is_some_and(is_duration) {
            splice.replace_or_insert("ttlMs", b"0".as_slice());
        }
        splice.replace_or_insert("cacheScope", PRIVATE);
    } else if kind == ResultKind::Cacheable && splice.member("cacheScope").is_some() {
        splice.replace_or_insert("cacheScope", PRIVATE);
    }
    splice.meta_insert_if_absent(SERVER_INFO, server_info);
    // A task of a session is seen through before its result gets here; the client knows of none.
    splice.meta_remove(RELATED_TASK);
    Ok(splice.finish())
}

/// `_meta` key under which a result says which server made it.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const PRIVATE: &[u8] = b"\"private\"";

/// Whether a raw value is a number that is not negative (and not minus zero).
fn is_duration(raw: &[u8]) -> bool {
    raw.first().is_some_and(u8::is_ascii_digit) && number(raw).is_some_and(f64::is_finite)
}

/// A server's error for a modern client: a missing resource is −32602 there.
#[must_use]
pub fn error_for_modern(error: &Bytes) -> Bytes {
    with_code(error, ErrorCode::ResourceNotFound, ErrorCode::InvalidParams)
}

/// A modern server's error for a legacy client: a resource that `resources/read` does not find is
/// −32002 there. Errors of other methods stay as they are.
#[must_use]
pub fn error_for_legacy(error: &Bytes, method: &Method) -> Bytes {
    if *method == Method::ResourcesRead {
        with_code(error, ErrorCode::InvalidParams, ErrorCode::ResourceNotFound)
    } else {
        error.clone()
    }
}

/// Exchanges one code for another; an error that cannot be read, or has another code, stays.
fn with_code(error: &Bytes, from: ErrorCode, to: ErrorCode) -> Bytes {
    let Ok(mut splice) = Splice::new(error) else {
        return error.clone();
    };
    if splice.raw("code").and_then(number) == Some(f64::from(from.as_i32())) {
        splice.replace_or_insert("code", to.as_str().as_bytes());
    }
    splice.finish()
}

fn number(raw: &[u8]) -> Option<f64> {
    serde_json::from_slice(raw).ok()
}

vocabulary::words! {
    /// How grave a log message is; the order is that of RFC 5424, from the least.
    #[derive(PartialOrd, Ord)]
    pub enum LogLevel {
        /// `debug`
        Debug = "debug",
        /// `info`
        Info = "info",
        /// `notice`
        Notice = "notice",
        /// `warning`
        Warning = "warning",
        /// `error`
        Error = "error",
        /// `critical`
        Critical = "critical",
        /// `alert`
        Alert = "alert",
        /// `emergency`
        Emergency = "emergency",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &[u8] = br#"{"name":"p"}"#;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn modern(text: &str, kind: ResultKind) -> String {
        let out = for_modern(&bytes(text), kind, INFO).expect("a result");
        String::from_utf8(out.to_vec()).expect("UTF-8")
    }

    #[test]
    fn a_result_read_in_two_ways_is_refused() {
        for text in [
            r#"{"resultType":"task","resultType":"complete"}"#,
            r#"{"cacheScope":"private","cach\u0065Scope":"public"}"#,
            r#"{"_meta":{"a":1,"a":1}}"#,
        ] {
            assert_eq!(
                for_modern(&bytes(text), ResultKind::Cacheable, INFO),
                Err(SpliceFault::Duplicate)
            );
        }
        assert_eq!(
            for_modern(&bytes("[]"), ResultKind::Plain, INFO),
            Err(SpliceFault::NotAnObject)
        );
    }

    #[test]
    fn a_legacy_result_gets_what_a_modern_one_has() {
        assert_eq!(
            modern(r#"{"content":[ ],"x":1e2}"#, ResultKind::Plain),
            r#"{"content":[ ],"x":1e2,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"p"}}}"#
        );
        assert_eq!(
            modern(r#"{"tools":[],"_meta":{"a":1}}"#, ResultKind::Cacheable),
            r#"{"tools":[],"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"p"}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#
        );
    }

    #[test]
    fn a_modern_result_stays_except_for_its_scope() {
        let text = |scope: &str| {
            format!(
                r#"{{"resultType":"complete","ttlMs": 5e3,"cacheScope":"{scope}","_meta":{{"{SERVER_INFO}":{{}}}},"t":[]}}"#
            )
        };
        assert_eq!(modern(&text("public"), ResultKind::Cacheable), text("private"));
        let private = bytes(&text("private"));
        let out = for_modern(&private, ResultKind::Cacheable, INFO).expect("a result");
        assert_eq!(out.as_ptr(), private.as_ptr());
    }

    #[test]
    fn a_duration_that_is_none_becomes_zero() {
        for (ttl, expected) in [
            ("-1", "0"),
            ("-0", "0"),
            ("null", "0"),
            ("\"5\"", "0"),
            ("[]", "0"),
            ("1e999", "0"),
            ("0", "0"),
            ("1.5e3", "1.5e3"),
        ] {
            let out = modern(&format!(r#"{{"ttlMs":{ttl}}}"#), ResultKind::Cacheable);
            assert!(out.starts_with(&format!(r#"{{"ttlMs":{expected},"#)), "{ttl}: {out}");
        }
    }

    #[test]
    fn only_complete_results_get_cache_hints() {
        let asking = modern(
            r#"{"resultType":"input_required","requestState":"s"}"#,
            ResultKind::Cacheable,
        );
        assert!(!asking.contains("ttlMs") && !asking.contains("cacheScope"), "{asking}");
        let shared = modern(r#"{"resultType":"x","cacheScope":"public"}"#, ResultKind::Cacheable);
        assert!(shared.contains(r#""cacheScope":"private""#), "{shared}");
    }

    #[test]
    fn the_code_of_a_missing_resource_is_that_of_the_era() {
        let legacy = bytes(r#"{"message":"-32002","code" : -32002 ,"data":{"code":-32002}}"#);
        let modern = bytes(r#"{"message":"-32002","code" : -32602 ,"data":{"code":-32002}}"#);
        assert_eq!(error_for_modern(&legacy), modern);
        assert_eq!(error_for_legacy(&modern, &Method::ResourcesRead), legacy);
        assert_eq!(error_for_legacy(&modern, &Method::ToolsCall), modern);
        for other in [
            r#"{"code":-32601}"#,
            r#"{"code":"-32002"}"#,
            r#"{"code":-32002,"code":-32602}"#,
            "{}",
            "7",
        ] {
            assert_eq!(error_for_modern(&bytes(other)), other);
            assert_eq!(error_for_legacy(&bytes(other), &Method::ResourcesRead), other);
        }
    }

    #[test]
    fn levels_are_ordered_and_spelled_as_the_protocol_does() {
        assert!(LogLevel::ALL.is_sorted());
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::parse(level.as_str()), Some(level));
        }
        for unknown in ["", "Debug", "warn", "err"] {
            assert_eq!(LogLevel::parse(unknown), None);
        }
    }
}
