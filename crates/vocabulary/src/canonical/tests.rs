//! RFC 8785's own vectors, the number extension, and agreement with another writer.

use proptest::prelude::*;

use super::*;
use crate::json::Limits;

const WIDE: Limits = Limits {
    max_bytes: 1 << 20,
    max_depth: 64,
    max_string: 1 << 16,
    max_items: 10_000,
};

fn canonical(text: &str) -> (String, Spelling) {
    let mut out = Vec::new();
    let spelling = write(&Value::parse(text.as_bytes(), &WIDE).unwrap(), &mut out);
    (String::from_utf8(out).unwrap(), spelling)
}

fn jcs(text: &str) -> (String, Spelling) {
    (text.to_owned(), Spelling::Jcs)
}

fn exact(text: &str) -> (String, Spelling) {
    (text.to_owned(), Spelling::JcsExact)
}

#[test]
fn the_example_of_rfc_8785_section_3_2() {
    let text = r#"{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let (written, spelling) = canonical(text);
    let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.33333329,1e+30,4.5,0.002,1e-27],\
                    \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    // The RFC rounds 333333333.33333329 to …33; the exact rule keeps it.
    assert_eq!((written.as_str(), spelling), (expected, Spelling::JcsExact));
    let rounded = text.replace("333333333.33333329", "333333333.3333333");
    assert_eq!(
        canonical(&rounded),
        jcs(&expected.replace("333333333.33333329", "333333333.3333333"))
    );
}

#[test]
fn names_are_sorted_as_rfc_8785_section_3_2_3_sorts_them() {
    let text = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
        "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
    let expected = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\
                    \"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}";
    assert_eq!(canonical(text), jcs(expected));
}

#[test]
fn numbers_of_rfc_8785_appendix_b() {
    for (bits, expected) in [
        (0x0000_0000_0000_0000_u64, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        assert_eq!(
            expected.parse::<f64>().map(f64::to_bits).unwrap(),
            if expected == "0" { 0 } else { bits }
        );
        assert_eq!(canonical(expected), jcs(expected), "{bits:x}");
    }
}

#[test]
fn a_number_rfc_8785_would_round_keeps_its_digits() {
    for (text, expected) in [
        ("9007199254740993", "9007199254740993"),
        ("-9007199254740993.0", "-9007199254740993"),
        ("123456789012345678901234567890", "1.2345678901234567890123456789e+29"),
        ("1.00000000000000000001", "1.00000000000000000001"),
        ("0.10000000000000000001e1", "1.0000000000000000001"),
        ("1e-400", "1e-400"),
        ("-12.5e-400", "-1.25e-399"),
        (
            "100000000000000000000000000000001e-5",
            "1.00000000000000000000000000000001e+27",
        ),
        ("5e-325", "5e-325"),
        ("1424953923781206.3", "1424953923781206.3"),
    ] {
        assert_eq!(canonical(text), exact(expected), "{text}");
    }
    for (text, expected) in [
        ("9007199254740992", "9007199254740992"),
        ("1.0", "1"),
        ("1e2", "100"),
        ("-0", "0"),
        ("-0.0e5", "0"),
        ("0e-999999999", "0"),
        ("0.1", "0.1"),
        ("1e21", "1e+21"),
        ("123456789012345680000", "123456789012345680000"),
        ("0.0000001", "1e-7"),
    ] {
        assert_eq!(canonical(text), jcs(expected), "{text}");
    }
}

#[test]
fn one_exact_number_anywhere_marks_the_whole_document() {
    assert_eq!(
        canonical(r#"{"b":[{"c":9007199254740993}],"a":1}"#),
        exact(r#"{"a":1,"b":[{"c":9007199254740993}]}"#)
    );
    let digest_of = |text: &str| digest(&Value::parse(text.as_bytes(), &WIDE).unwrap());
    assert_ne!(digest_of("9007199254740993").0, digest_of("9007199254740992").0);
    assert_eq!(digest_of("{\"a\" : 1.0}"), (Digest::of(b"{\"a\":1}"), Spelling::Jcs));
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (-9_007_199_254_740_992_i64..=9_007_199_254_740_992).prop_map(Into::into),
        // Between these `serde_json` itself may spell a tie with the odd digit.
        any::<f64>()
            .prop_filter("no tie", |double| !(1e13..1e23).contains(&double.abs()))
            .prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::hash_map(any::<String>(), inner, 0..8).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn another_writer_agrees(value in value()) {
        let text = serde_json::to_string(&value).unwrap();
        let theirs = serde_json_canonicalizer::to_string(&value).unwrap();
        prop_assert_eq!(canonical(&text), jcs(&theirs));
    }

    #[test]
    fn any_double_is_spelled_as_ecmascript_does(bits in any::<u64>()) {
        let double = f64::from_bits(bits);
        prop_assume!(double.is_finite());
        let theirs = serde_json_canonicalizer::to_string(&double).unwrap();
        prop_assert_eq!(canonical(&theirs), jcs(&theirs));
    }

    // Where a double lies halfway between two shortest decimals, the even one is its spelling.
    #[test]
    fn ties_go_to_the_even_digit(whole in 1_u64 << 50..1 << 51, quarter in prop_oneof![Just(0.25), Just(0.75)]) {
        let theirs = serde_json_canonicalizer::to_string(&(whole as f64 + quarter)).unwrap();
        prop_assert_eq!(canonical(&theirs), jcs(&theirs));
    }

    #[test]
    fn names_sort_as_utf_16_does(one in any::<String>(), other in any::<String>()) {
        prop_assert_eq!(sort_key(&one).cmp(sort_key(&other)), one.encode_utf16().cmp(other.encode_utf16()));
    }

    #[test]
    fn a_canonical_form_is_its_own_canonical_form(value in value()) {
        let (once, _) = canonical(&value.to_string());
        prop_assert_eq!(canonical(&once), jcs(&once));
    }

    #[test]
    fn equal_values_share_a_spelling_and_others_do_not(digits in "[1-9][0-9]{0,40}", shift in 0_usize..20, more in "[1-9]") {
        let shifted = format!("{digits}{}e-{shift}", "0".repeat(shift));
        prop_assert_eq!(canonical(&digits), canonical(&shifted));
        let other = format!("{digits}.{}{more}", "0".repeat(shift));
        prop_assert_ne!(canonical(&digits).0, canonical(&other).0);
    }
}
