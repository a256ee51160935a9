//! Ways to write a secret so that a plain search does not see it.

use super::*;

/// One way to bring a secret to a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Disguise {
    Plain,
    Prose,
    Code,
    Address,
    JsonInText,
    ZeroWidth,
    Ansi,
    VariationSelectors,
    TwoBlocks,
    Base64,
    Hex,
    Percent,
    Escaped,
}

impl Disguise {
    pub(super) const ALL: [Self; 13] = [
        Self::Plain,
        Self::Prose,
        Self::Code,
        Self::Address,
        Self::JsonInText,
        Self::ZeroWidth,
        Self::Ansi,
        Self::VariationSelectors,
        Self::TwoBlocks,
        Self::Base64,
        Self::Hex,
        Self::Percent,
        Self::Escaped,
    ];

    /// The raw contents of the text blocks.
    pub(super) fn blocks(self, secret: &str, draw: &mut Draw) -> Vec<String> {
        let one = |text: String| vec![raw(&text)];
        let hex = |format: fn(u8) -> String| -> String { secret.bytes().map(format).collect() };
        let mut hidden = |between: &str| {
            let every = 2 + draw.below(5);
            let signs = secret.chars().enumerate();
            signs
                .map(|(at, sign)| {
                    if at % every == 1 {
                        format!("{sign}{between}")
                    } else {
                        sign.into()
                    }
                })
                .collect::<String>()
        };
        match self {
            Self::Plain => one(secret.to_owned()),
            Self::Prose => one(format!(
                "Here is what you asked for: {secret}, and please keep it to yourself.\nThanks!"
            )),
            Self::Code => one(format!(
                "fn main() {{\n    let value = \"{secret}\"; // TODO\n    run(value)\n}}\n"
            )),
            Self::Address => one(format!("GET /v1/items?page=2&x={secret}&sort=asc HTTP/1.1")),
            Self::JsonInText => {
                one(serde_json::json!({"ok": true, "note": format!("first\n{secret}\nlast")}).to_string())
            }
            Self::ZeroWidth => one(format!("see {}", hidden("\u{200b}"))),
            Self::Ansi => one(format!("see {}", hidden("\u{1b}[38:5:1m"))),
            Self::VariationSelectors => one(format!("see \u{1f600}\u{fe0f} {}", hidden("\u{fe0e}\u{e0101}"))),
            Self::TwoBlocks => {
                let middle = (1..secret.len())
                    .filter(|at| secret.is_char_boundary(*at))
                    .nth(secret.len() / 2);
                let (head, tail) = secret.split_at(middle.unwrap_or(1));
                vec![raw(&format!("part one: {head}")), raw(&format!("{tail}\nthe end"))]
            }
            Self::Base64 => one(format!("payload: {}", sample::base64(secret))),
            Self::Hex => one(format!("payload: {}", hex(|byte| format!("{byte:02x}")))),
            Self::Percent => one(format!("payload: {}", hex(|byte| format!("%{byte:02X}")))),
            Self::Escaped => {
                let escaped: String = secret.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
                vec![escaped]
            }
        }
    }
}
