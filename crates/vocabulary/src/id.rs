//! Identifiers we mint: receipts, traces, and random secrets in hex.

use std::fmt;

use uuid::Uuid;

/// The name of one request's receipt: `rcp_` and a time-ordered UUID in hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ReceiptId(Uuid);

impl ReceiptId {
    /// A new id, unique across restarts and gateways.
    #[must_use]
    pub fn mint() -> Self {
        Self(Uuid::now_v7())
    }

    /// Reads `rcp_<32 hex digits>`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("rcp_").filter(|hex| hex.len() == 32)?;
        Uuid::try_parse(hex).ok().map(Self)
    }
}

impl fmt::Display for ReceiptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rcp_{}", self.0.simple())
    }
}

/// A W3C trace id: 16 bytes, never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceId([u8; 16]);

impl TraceId {
    /// A new random trace id.
    #[must_use]
    pub fn mint() -> Self {
        Self(*Uuid::now_v7().as_bytes())
    }

    /// The trace id of a `traceparent` header (version 00), if it is well formed.
    #[must_use]
    pub fn from_traceparent(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex =
            |text: &str, length| text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let fits = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
        let last = version != "00" || parts.next().is_none();
        let id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        (fits && last).then(|| Self(id.to_be_bytes()))
    }

    /// A `traceparent` value for the next hop: this trace, a new span.
    #[must_use]
    pub fn to_traceparent(&self) -> String {
        let span = Uuid::now_v7();
        let (_, tail) = span.as_bytes().split_at(8);
        let mut out = format!("00-{self}-").into_bytes();
        write_hex(tail, &mut out);
        out.extend_from_slice(b"-01");
        String::from_utf8(out).unwrap_or_default()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// `bytes` random bytes from the system's generator, in lower-case hex.
///
/// # Errors
/// When the system cannot give random bytes; nothing may be minted then.
pub fn random_hex(bytes: usize) -> Result<String, aws_lc_rs::error::Unspecified> {
    let mut raw = vec![0u8; bytes];
    aws_lc_rs::rand::fill(&mut raw)?;
    let mut out = Vec::with_capacity(bytes * 2);
    write_hex(&raw, &mut out);
    String::from_utf8(out).map_err(|_| aws_lc_rs::error::Unspecified)
}

pub(crate) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    for byte in bytes {
        for nibble in [byte >> 4, byte & 0x0f] {
            out.push(DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipt_ids_read_back_and_differ() {
        let one = ReceiptId::mint();
        assert_eq!(ReceiptId::parse(&one.to_string()), Some(one));
        assert_ne!(one, ReceiptId::mint());
        assert_eq!(ReceiptId::parse("rcp_1"), None);
    }

    #[test]
    fn a_traceparent_keeps_its_trace_and_a_bad_one_is_none() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = TraceId::from_traceparent(header).expect("well formed");
        assert_eq!(trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(TraceId::from_traceparent(&trace.to_traceparent()), Some(trace));
        for bad in [
            "",
            "00-0-0-0",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceId::from_traceparent(bad), None, "{bad}");
        }
    }
}
