//! Identifiers we mint: receipts, traces, and random secrets in hex.

use std::cell::RefCell;
use std::fmt;

use data_encoding::HEXLOWER;
use uuid::{Builder, Uuid};

use crate::Clock;

/// The name of one request's receipt: `rcp_` and a time-ordered UUID in hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ReceiptId(Uuid);

impl ReceiptId {
    /// A new id, unique across restarts and gateways: a version 7 UUID of this millisecond and 74 random bits.
    #[must_use]
    pub fn mint() -> Self {
        let millis = u64::try_from(Clock::system().now().as_micros() / 1000).unwrap_or_default();
        let minted = random().map(|random| Builder::from_unix_timestamp_millis(millis, &random).into_uuid());
        Self(minted.unwrap_or_else(Uuid::now_v7))
    }

    /// Writes the 36 characters `rcp_…` without going through the formatter.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"rcp_");
        write_hex(self.0.as_bytes(), out);
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
        let minted = random().filter(|id| *id != [0; 16]);
        Self(minted.unwrap_or_else(|| *Uuid::now_v7().as_bytes()))
    }

    /// Writes the 32 hex digits without going through the formatter.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        write_hex(&self.0, out);
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
        let span = random().unwrap_or_else(|| Uuid::now_v7().as_u64_pair().1.to_be_bytes());
        let mut out = Vec::with_capacity(55);
        out.extend_from_slice(b"00-");
        self.write_to(&mut out);
        out.push(b'-');
        write_hex(&span, &mut out);
        out.extend_from_slice(b"-01");
        String::from_utf8(out).unwrap_or_default()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
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
    // No table and no branch, so that the compiler can do many digits at once.
    let digit = |nibble: u8| nibble + b'0' + u8::from(nibble > 9) * (b'a' - b'9' - 1);
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)]));
}

/// Random bytes for an id; `None` where the generator fails. It is asked for many at a time: a request needs three
/// ids, and each on its own would cost a call into the system. Ids are no secrets; what is one comes from
/// [`random_hex`].
fn random<const N: usize>() -> Option<[u8; N]> {
    thread_local! {
        static DRAWN: RefCell<Drawn> = const { RefCell::new(Drawn::NONE) };
    }
    DRAWN.with_borrow_mut(Drawn::take)
}

/// Random bytes that were drawn and not yet given out.
struct Drawn {
    bytes: [u8; Self::AT_ONCE],
    used: usize,
}

impl Drawn {
    const AT_ONCE: usize = 1024;
    const NONE: Self = Self {
        bytes: [0; Self::AT_ONCE],
        used: Self::AT_ONCE,
    };

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.used + N > Self::AT_ONCE {
            // INVARIANT: bytes are given out once; after a failure none of the old ones are left.
            self.used = Self::AT_ONCE;
            aws_lc_rs::rand::fill(&mut self.bytes).ok()?;
            self.used = 0;
        }
        let taken = self.bytes.get(self.used..)?.first_chunk().copied()?;
        self.used += N;
        Some(taken)
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
    fn ids_never_repeat_while_the_drawn_bytes_run_out_and_are_drawn_again() {
        let receipts: std::collections::HashSet<_> = (0..5_000).map(|_| ReceiptId::mint()).collect();
        let traces: std::collections::HashSet<_> = (0..5_000).map(|_| TraceId::mint()).collect();
        assert_eq!((receipts.len(), traces.len()), (5_000, 5_000));
    }

    #[test]
    fn receipt_ids_are_version_7_of_now_and_sort_by_time() {
        let one = ReceiptId::mint();
        assert_eq!(
            (one.0.get_version_num(), one.0.get_variant()),
            (7, uuid::Variant::RFC4122)
        );
        let (seconds, _) = one.0.get_timestamp().expect("version 7 has one").to_unix();
        assert!(
            Clock::system()
                .now()
                .as_seconds()
                .abs_diff(i64::try_from(seconds).expect("small"))
                <= 1
        );
        std::thread::sleep(std::time::Duration::from_millis(3));
        assert!(one < ReceiptId::mint());
    }

    #[test]
    fn what_is_written_is_what_is_displayed() {
        let (receipt, trace) = (ReceiptId::mint(), TraceId::mint());
        let mut written = Vec::new();
        receipt.write_to(&mut written);
        trace.write_to(&mut written);
        assert_eq!(written, format!("{receipt}{trace}").into_bytes());
        let mut hex = Vec::new();
        write_hex(&(0..=255).collect::<Vec<u8>>(), &mut hex);
        let expected: String = (0..=255).map(|byte: u8| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected.as_bytes());
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
