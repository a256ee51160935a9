//! What goes on record of each judgement, whole: what, where, how much, and never a word of what was removed.

use ledger::{ScreeningAct, ScreeningGuard, ScreeningMode, ScreeningStage};
use vocabulary::Digest;

use super::*;

fn stripping() -> Rules {
    let mut rules = rules();
    rules.sanitisation.strip = Classes::ALL;
    rules
}

#[test]
fn what_was_taken_out_is_counted_by_class_over_all_literals() {
    let raw = concat!(
        "{\"content\":[{\"type\":\"text\",\"text\":\"\\u001b[1ma\\u0007\\u200b\\u200b\\u202e\"},",
        "{\"type\":\"text\",\"text\":\"\\u001b[1ma\\u001b[2m\\u0007\\u0007\\u200b\\u202e\\u202e\"}]}"
    );
    let told = told(raw, &UNTRUSTED, &stripping());
    assert_eq!(
        told.text(),
        r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"a"}]}"#
    );
    let expected = Judgement {
        stripped: vec![("ansi", 3), ("bidi", 3), ("c0c1", 3), ("zero_width", 3)],
        ..Judgement::new(
            ScreeningAct::Stripped,
            ScreeningStage::Strip,
            ScreeningMode::Strip,
            "characters were taken out: 3 ansi, 3 bidi, 3 c0c1, 3 zero_width".to_owned(),
        )
    };
    assert_eq!(told.decisions, [expected]);
    let one = super::told(&text("a\u{200b}"), &UNTRUSTED, &stripping());
    assert_eq!(one.decisions[0].stripped, [("zero_width", 1)]);
    assert_eq!(one.decisions[0].message, "characters were taken out: 1 zero_width");
}

#[test]
fn what_stays_because_it_is_never_edited_is_counted_where_somebody_reads_it() {
    let block = |inner: &str| format!(r#"{{"content":[{inner}]}}"#);
    let embedded = block("{\"type\":\"resource\",\"resource\":{\"uri\":\"a:b\",\"text\":\"x\u{200b}\u{200b}\"}}");
    let left = told(&embedded, &UNTRUSTED, &stripping());
    assert_eq!(left.text(), embedded);
    let judged: Vec<_> = left
        .decisions
        .iter()
        .map(|judged| (judged.act, judged.stage, judged.stripped.clone()))
        .collect();
    let counted = vec![("zero_width", 2)];
    assert_eq!(judged, [(ScreeningAct::Warning, ScreeningStage::Strip, counted)]);
    for unread in [
        // A word of the protocol, and the name of a member.
        block("{\"type\":\"resource_link\",\"uri\":\"a:b\u{200b}\",\"name\":\"n\"}"),
        "{\"content\":[],\"structuredContent\":{\"a\u{200b}\":1}}".to_owned(),
    ] {
        let told = told(&unread, &UNTRUSTED, &stripping());
        assert_eq!((told.text(), told.words()), (unread.as_str(), Vec::new()));
    }
    let named = "{\"taskId\":\"t\u{200b}\",\"status\":\"working\u{200b}\"}";
    let told = told(named, &UNTRUSTED_TASK, &stripping());
    assert_eq!(
        (told.text(), told.words()),
        (named, Vec::new()),
        "words of the protocol"
    );
}

#[test]
fn a_definition_tells_what_it_hides_and_forged_members_are_counted() {
    let case = |message| Case { message, ..UNTRUSTED };
    let hidden = told(
        "{\"name\":\"p\",\"description\":\"do\u{e0041}\u{e0042} it\"}",
        &case(Message::Definitions),
        &rules(),
    );
    assert_eq!(hidden.decisions[0].stripped, [("zero_width", 2)]);
    let forged = r#"{"content":[],"_meta":{"portreeve/a":1,"x":2,"portreeve/b":3}}"#;
    let told_of = told(forged, &UNTRUSTED, &rules());
    assert_eq!(told_of.decisions[0].stripped, [("forged_meta", 2)]);
    let feigned = r#"{"code":-1,"message":"m","data":{"reason_codes":[],"decision":1,"a":2}}"#;
    let told_of = told(feigned, &case(Message::Error), &rules());
    assert_eq!(told_of.decisions[0].stripped, [("forged_refusal", 2)]);
}

#[test]
fn our_name_is_found_before_structured_output_and_behind_it() {
    for raw in [
        r#"{"_meta":{"portreeve/x":1},"structuredContent":{"a":1},"content":[]}"#,
        r#"{"content":[],"structuredContent":{"a":1},"_meta":{"portreeve/x":1}}"#,
    ] {
        let told = told(raw, &UNTRUSTED, &rules());
        assert_eq!(told.text(), raw.replace(r#""portreeve/x":1"#, ""));
        assert_eq!(told.words(), ["stripped/meta"]);
    }
}

#[test]
fn a_violation_says_where_which_rule_and_of_which_schema() {
    let schema = r#"{"properties":{"n":{"type":"integer"}}}"#;
    let case = Case {
        schema: Some(schema),
        ..UNTRUSTED
    };
    let raw = r#"{"content":[],"structuredContent":{"n":"x"}}"#;
    let mut strict = rules();
    strict.validation.mode = Mode::Strict;
    for (rules, act, mode) in [
        (rules(), ScreeningAct::Warning, ScreeningMode::Warn),
        (strict, ScreeningAct::Blocked, ScreeningMode::Strict),
    ] {
        let told = told(raw, &case, &rules);
        let [judged] = &*told.decisions else {
            panic!("{:?}", told.words())
        };
        let expected = Judgement {
            path: Some("/n".to_owned()),
            keyword: Some("type".to_owned()),
            schema_hash: Some(Digest::of(schema.as_bytes())),
            ..Judgement::new(act, ScreeningStage::Validation, mode, judged.message.clone())
        };
        assert_eq!(judged, &expected);
    }
    let mut narrow = rules();
    narrow.validation.max_depth = 2;
    let deep = told(r#"{"content":[],"structuredContent":{"n":[1]}}"#, &case, &narrow);
    assert_eq!(deep.decisions[0].guard, Some(ScreeningGuard::MaxDepth));
    narrow.validation.max_bytes = 4;
    let large = told(r#"{"content":[],"structuredContent":{"n":1}}"#, &case, &narrow);
    assert_eq!(large.decisions[0].guard, Some(ScreeningGuard::MaxBytes));
}

#[test]
fn how_deep_the_rest_of_a_result_is_counts_nothing_for_structured_output() {
    let case = Case {
        schema: Some("{}"),
        ..UNTRUSTED
    };
    let mut narrow = rules();
    narrow.validation.max_depth = 2;
    let raw = r#"{"content":[],"structuredContent":{"n":1},"_meta":{"a":[[[[1]]]]}}"#;
    assert_eq!(told(raw, &case, &narrow).words(), Vec::<String>::new());
}

#[test]
fn what_was_said_before_an_edit_that_is_undone_stays_on_record() {
    let raw = text(&format!("{CARD} {TOKEN}"));
    let mut one = redacting();
    one.sanitisation.max_redactions = 1;
    assert_eq!(
        told(&raw, &UNTRUSTED, &one).words(),
        ["blocked/detection/redaction_limit"]
    );
    let kept = Judgement::new(
        ScreeningAct::Warning,
        ScreeningStage::Validation,
        ScreeningMode::Warn,
        "said of the message as it came".to_owned(),
    );
    let stopped = Judgement::new(
        ScreeningAct::Blocked,
        ScreeningStage::Guard,
        ScreeningMode::Always,
        "likewise".to_owned(),
    );
    let gone = [ScreeningAct::Redacted, ScreeningAct::Stripped].map(|act| {
        let message = "of an edit that did not happen".to_owned();
        Judgement::new(act, ScreeningStage::Detection, ScreeningMode::Redact, message)
    });
    let facts = [
        &gone[..1],
        std::slice::from_ref(&kept),
        &gone[1..],
        std::slice::from_ref(&stopped),
    ]
    .concat();
    assert_eq!(undone(facts), [kept, stopped]);
}

#[test]
fn text_is_cut_where_nothing_else_is_asked_for() {
    let mut cutting = rules();
    cutting.truncation = Some(Truncation {
        limit_bytes: 60,
        mint: || "KEY".to_owned(),
    });
    let long = text(&"x".repeat(61));
    let cut = told(&long, &UNTRUSTED, &cutting);
    assert!(cut.text().contains("portreeve/truncated"), "{}", cut.text());
    let short = text("x");
    assert!(short.len() < 60, "the whole message is within the limit");
    assert_eq!(told(&short, &UNTRUSTED, &cutting).text(), short);
}
