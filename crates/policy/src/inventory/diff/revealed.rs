//! Texts with what nobody sees spelled out: hidden characters, and letters that only look like others.

use serde_json::Value;

/// The text with hidden characters as `<U+XXXX>`, and look-alikes followed by theirs.
#[must_use]
pub fn revealed(text: &str) -> String {
    if text.is_ascii()
        && !text
            .bytes()
            .any(|byte| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t'))
    {
        return text.to_owned();
    }
    let has_latin = text.chars().any(|sign| sign.is_ascii_alphabetic());
    let mut shown = String::with_capacity(text.len());
    for word in words(text) {
        let looks_latin = has_latin
            && (word.chars().any(|sign| sign.is_ascii_alphabetic())
                || word.chars().all(|sign| !sign.is_alphabetic() || looks_like_ascii(sign)));
        for sign in word.chars() {
            if is_hidden(sign) {
                shown.push_str(&format!("<U+{:04X}>", u32::from(sign)));
                continue;
            }
            shown.push(sign);
            if is_other_width(sign) || (looks_latin && looks_like_ascii(sign)) {
                shown.push_str(&format!("<U+{:04X}>", u32::from(sign)));
            }
        }
    }
    shown
}

/// The same for every text and every name in a value.
pub(super) fn revealed_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(revealed(text)),
        Value::Array(items) => items.iter().map(revealed_value).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (revealed(name), revealed_value(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Runs of letters with what is hidden among them, and what stands between.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let belongs = |sign: char| sign.is_alphanumeric() || is_hidden(sign);
        let first = belongs(rest.chars().next()?);
        let end = rest.find(|sign| belongs(sign) != first).unwrap_or(rest.len());
        let (word, behind) = rest.split_at_checked(end)?;
        rest = behind;
        Some(word)
    })
}

/// What moves the cursor, turns the line, takes no room, or is blank without being a space.
fn is_hidden(sign: char) -> bool {
    (sign.is_control() && !matches!(sign, '\n' | '\t'))
        || (sign.is_whitespace() && !matches!(sign, ' ' | '\n' | '\t'))
        || matches!(sign,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{70f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{10ffff}')
}

/// ASCII in another width or as a mathematical letter, wherever it stands.
fn is_other_width(sign: char) -> bool {
    matches!(sign, '\u{ff01}'..='\u{ff5e}' | '\u{1d400}'..='\u{1d7ff}')
}

/// Letters of other scripts that are drawn as ASCII ones, and punctuation that is.
fn looks_like_ascii(sign: char) -> bool {
    is_other_width(sign) || LOOK_ALIKES.contains(sign)
}

/// Cyrillic, Greek, Armenian, Cherokee and Latin letters beyond ASCII, as far as they are drawn alike.
const LOOK_ALIKES: &str =
    "аеорсухіјѕһԁԛԝвкмнтАВЕКМНОРСТУХІЈЅԌԚԜαονιρτυχκγΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոցհգքᎪᏴᏟᎬᎻᎫᏦᏞᎷᏢᏚᎢᏙᎳᏃıɑɡℓℎⅰⅴⅹⅼⅽⅾⅿǃ∕⁄";
