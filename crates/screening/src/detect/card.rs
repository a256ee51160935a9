//! Card numbers: issuer, length and Luhn digit, and whether digits without groups are spoken of as a card. One number in
//! ten has a right Luhn digit, so ids and amounts would be cards by the thousand.

use std::ops::Range;

/// Whether digits (and separators) at `whole` are the number of a card: a number of its own, issued, and either written in
/// groups as cards are or named as one.
pub(super) fn is_told(text: &[u8], whole: &Range<usize>) -> bool {
    let bytes = text.get(whole.clone()).unwrap_or_default();
    let before = text
        .get(whole.start.saturating_sub(BEFORE)..whole.start)
        .unwrap_or_default();
    let after = text
        .get(whole.end..(whole.end + GROUP + 1).min(text.len()))
        .unwrap_or_default();
    let is_grouped = bytes.iter().any(|byte| !byte.is_ascii_digit());
    let is_of_table = before
        .rchunks(GROUP + 1)
        .next()
        .is_some_and(|group| is_group(group.iter().rev()))
        && is_group(after.iter());
    stands_alone(text, whole) && is_card(bytes) && (speaks_of_cards(before) || (is_grouped && !is_of_table))
}

/// Whether a separator and then four hex digits stand there, as in a table of numbers that are no cards.
fn is_group<'a>(mut signs: impl Iterator<Item = &'a u8>) -> bool {
    signs.next().is_some_and(|sign| matches!(sign, b' ' | b'-'))
        && signs.filter(|sign| sign.is_ascii_hexdigit()).count() == GROUP
}

/// Whether a run of digits is a number of its own, not a part of a fraction, a date or an id.
fn stands_alone(text: &[u8], whole: &Range<usize>) -> bool {
    let at = |place: Option<usize>| place.and_then(|place| text.get(place)).copied().unwrap_or(b' ');
    let (before, after) = (at(whole.start.checked_sub(1)), at(Some(whole.end)));
    let joined = |sign: u8, beyond: u8| matches!(sign, b'.' | b'-' | b'+') && beyond.is_ascii_alphanumeric();
    !joined(before, at(whole.start.checked_sub(2))) && !joined(after, at(Some(whole.end + 1)))
}

/// Whether digits (and separators) have the prefix and length of an issuer and a right Luhn digit.
pub(super) fn is_card(bytes: &[u8]) -> bool {
    let digits = || {
        bytes
            .iter()
            .filter(|byte| byte.is_ascii_digit())
            .map(|digit| u32::from(digit - b'0'))
    };
    let prefix = |length: usize| digits().take(length).fold(0, |value, digit| value * 10 + digit);
    let length = digits().count();
    let issued = match (prefix(1), prefix(2), prefix(3), prefix(4)) {
        (4, _, _, _) => matches!(length, 13 | 16 | 19),
        (_, 51..=55, _, _) | (_, _, _, 2221..=2720) => length == 16,
        (_, 34 | 37, _, _) => length == 15,
        (_, 36 | 38 | 39, _, _) | (_, _, 300..=305, _) => (14..=19).contains(&length),
        (_, 62 | 64 | 65, _, _) | (_, _, _, 6011 | 3528..=3589) => (16..=19).contains(&length),
        (_, 50 | 56 | 57 | 58 | 67, _, _) | (_, _, _, 6304 | 6759..=6763) => length == 16,
        _ => false,
    };
    issued && luhn(digits().rev())
}

/// Whether digits, the last one first, have a right Luhn digit.
fn luhn(digits: impl Iterator<Item = u32>) -> bool {
    let value = |(place, digit): (usize, u32)| match place % 2 {
        0 => digit,
        _ if digit > 4 => digit * 2 - 9,
        _ => digit * 2,
    };
    digits.enumerate().map(value).sum::<u32>() % 10 == 0
}

/// Whether a word of a text or a name, in any of the ways names are written, is one for a card. `discard` and
/// `cardinality` are not.
pub(super) fn speaks_of_cards(text: &[u8]) -> bool {
    let border = |pair: &[u8]| match pair {
        [one, next] => {
            one.is_ascii_alphabetic() != next.is_ascii_alphabetic()
                || (one.is_ascii_lowercase() && next.is_ascii_uppercase())
        }
        _ => false,
    };
    let mut start = 0;
    for end in (1..=text.len()).filter(|end| text.get(end - 1..end + 1).is_none_or(border)) {
        let word = text.get(start..end).unwrap_or_default().to_ascii_lowercase();
        if WORDS.binary_search(&word.as_slice()).is_ok() {
            return true;
        }
        start = end;
    }
    false
}

/// Digits of a group.
const GROUP: usize = 4;

/// How far before bare digits something may speak of them.
const BEFORE: usize = 64;

/// In order.
const WORDS: [&[u8]; 39] = [
    b"amex",
    b"card",
    b"cardno",
    b"cardnr",
    b"cardnum",
    b"cardnumber",
    b"cardnumbers",
    b"cardpan",
    b"cards",
    b"carta",
    b"carte",
    b"cc",
    b"ccn",
    b"ccno",
    b"ccnum",
    b"ccnumber",
    b"creditcard",
    b"creditcardno",
    b"creditcardnum",
    b"creditcardnumber",
    b"creditcards",
    b"debitcard",
    b"debitcardnumber",
    b"diners",
    b"dinersclub",
    b"jcb",
    b"kartennummer",
    b"kreditkarte",
    b"kreditkartennummer",
    b"maestro",
    b"mastercard",
    b"pan",
    b"paymentcard",
    b"primaryaccountnumber",
    b"tarjeta",
    b"unionpay",
    b"visa",
    b"visacard",
    b"visanumber",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order_and_found() {
        assert!(WORDS.is_sorted());
        for name in [
            "cardNumber",
            "CARD_NUMBER",
            "card-no",
            "the PAN",
            "CreditCard",
            "visa",
            "x.card.y",
        ] {
            assert!(speaks_of_cards(name.as_bytes()), "{name}");
        }
        for name in [
            "discard",
            "cardinality",
            "company",
            "scorecard",
            "",
            "id",
            "accurate",
            "wildcard_id",
        ] {
            assert!(!speaks_of_cards(name.as_bytes()), "{name}");
        }
    }
}
