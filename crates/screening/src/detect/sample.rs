//! Writes example secrets from templates, so that packs hold none: `ghp_{an:36}` has no token in it, and every seed
//! gives another one.

use super::check::checksum;

/// A small generator: examples are the same on every machine.
#[derive(Clone, Debug)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(bound.max(1)).unwrap_or(1)).unwrap_or_default()
    }

    /// One of `choices`; the default if there are none.
    pub(super) fn of<T: Copy + Default>(&mut self, choices: &[T]) -> T {
        choices.get(self.below(choices.len())).copied().unwrap_or_default()
    }

    /// As many characters of `alphabet`.
    pub(super) fn text(&mut self, alphabet: &str, length: usize) -> String {
        let alphabet = alphabet.as_bytes();
        (0..length).map(|_| char::from(self.of(alphabet))).collect()
    }
}

/// Fills in a template: `{class:length}` is drawn, everything else stays.
pub(super) fn fill(template: &str, draw: &mut Draw) -> String {
    let mut out = String::with_capacity(template.len() + 64);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let drawn = after
            .split_once('}')
            .and_then(|(slot, tail)| Some((slot_of(slot, draw)?, tail)));
        match drawn {
            Some((text, tail)) => {
                out.push_str(&text);
                rest = tail;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn slot_of(slot: &str, draw: &mut Draw) -> Option<String> {
    let (class, length) = slot.split_once(':').unwrap_or((slot, ""));
    if let Some(alphabet) = alphabet(class) {
        let length: usize = length.parse().ok().filter(|length| *length <= 4096)?;
        // Ends with letters: a token that ends in a hyphen is nobody's.
        let inner = draw.text(alphabet, length.saturating_sub(2));
        let signs = alphabet.contains(|sign: char| !sign.is_ascii_alphanumeric());
        let edge = if signs { "bcdfghjkmn" } else { alphabet };
        let (first, last) = (draw.text(edge, length.min(1)), draw.text(edge, usize::from(length > 1)));
        return Some(format!("{first}{inner}{last}"));
    }
    match class {
        "uuid" => Some([8, 4, 4, 4, 12].map(|length| draw.text(HEX, length)).join("-")),
        "jwt" => Some(jwt(draw)),
        "pem" => Some(armour(draw, length.parse().unwrap_or(6))),
        "crc" => {
            let body = draw.text(ALPHANUMERIC, 30);
            let sum = checksum(body.as_bytes());
            Some(body + &sum.map(char::from).iter().collect::<String>())
        }
        "card" => card(length, draw),
        "basic" => Some(base64(&format!(
            "{}:{}",
            draw.text(LOWER, 6),
            draw.text(ALPHANUMERIC, 12)
        ))),
        _ => None,
    }
}

fn alphabet(class: &str) -> Option<&'static str> {
    Some(match class {
        "an" => ALPHANUMERIC,
        "low" => LOWER,
        "up" => UPPER,
        "b32" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        "bech" => "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
        "hex" => HEX,
        "dig" => "0123456789",
        "b64" => BASE64,
        "url" => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
        _ => return None,
    })
}

fn jwt(draw: &mut Draw) -> String {
    let header = base64(r#"{"alg":"HS256","typ":"JWT"}"#);
    let payload = base64(&format!(
        r#"{{"sub":"{}","iat":17{}}}"#,
        draw.text(LOWER, 14),
        draw.text("0123456789", 8)
    ));
    let text = |encoded: String| encoded.replace('+', "-").replace('/', "_").replace('=', "");
    format!("{}.{}.{}", text(header), text(payload), draw.text(ALPHANUMERIC, 43))
}

fn armour(draw: &mut Draw, lines: usize) -> String {
    let mut out = String::new();
    for _ in 0..lines.min(64) {
        out.push_str(&draw.text(BASE64, 64));
        out.push('\n');
    }
    out + &draw.text(BASE64, 38) + "=="
}

fn card(issuer: &str, draw: &mut Draw) -> Option<String> {
    let (prefix, length) = match issuer {
        "visa" => ("4", 16),
        "mastercard" => ("53", 16),
        "amex" => ("37", 15),
        "discover" => ("6011", 16),
        _ => return None,
    };
    let mut number = prefix.to_owned();
    while number.len() + 1 < length {
        // No digit twice in a row: long runs read as placeholders.
        let digit = draw.text("0123456789", 1);
        if !number.ends_with(&digit) {
            number.push_str(&digit);
        }
    }
    (0..10)
        .map(|last| format!("{number}{last}"))
        .find(|number| super::card::is_card(number.as_bytes()))
}

/// Base64 with padding.
pub(super) fn base64(text: &str) -> String {
    base64_of(text.as_bytes())
}

/// Base64 of any bytes, with padding.
pub(crate) fn base64_of(bytes: &[u8]) -> String {
    let alphabet = BASE64.as_bytes();
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, index| {
            bits << 8 | three.get(index).map_or(0, |byte| u32::from(*byte))
        });
        for place in 0..4 {
            let sign = alphabet
                .get((bits >> (18 - 6 * place) & 63) as usize)
                .copied()
                .unwrap_or(b'A');
            out.push(if place <= three.len() { char::from(sign) } else { '=' });
        }
    }
    out
}

const ALPHANUMERIC: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const HEX: &str = "0123456789abcdef";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
