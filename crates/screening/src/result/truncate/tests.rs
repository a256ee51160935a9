//! Cuts and pages: nothing is halved, nothing is lost.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::result::edit::Edits;
use crate::result::edit::units::decoded;
use crate::result::walk::{Message, walk};

fn mask(range: Range<usize>) -> Edit {
    Edit {
        range,
        with: Cow::Borrowed("[REDACTED:x]"),
    }
}

/// What is shown of a literal, and the whole.
fn shown(raw: &str, edits: Vec<Edit>, limit: usize) -> Option<(String, String)> {
    let cut = cut(raw.as_bytes(), &edits, limit)?;
    let mut all = Edits::default();
    all.add_at(0, cut.shorten(edits));
    let short = decoded(&all.apply(&Bytes::from(raw.to_owned())).unwrap());
    assert_eq!(short.len(), cut.shown);
    Some((short, cut.whole))
}

fn pair(shown: &str, whole: &str) -> Option<(String, String)> {
    Some((shown.to_owned(), whole.to_owned()))
}

#[test]
fn a_text_is_cut_between_characters_however_they_are_spelled() {
    assert_eq!(shown("abcdef", Vec::new(), 6), None);
    assert_eq!(shown("abcdef", Vec::new(), 5), pair("abcde", "abcdef"));
    // The limit is of the text, not of its spelling.
    assert_eq!(shown(r"\u00e9\u00e9", Vec::new(), 4), None);
    assert_eq!(shown(r"\u00e9\u00e9", Vec::new(), 3), pair("é", "éé"));
    assert_eq!(shown(r"a\ud83d\ude00b", Vec::new(), 4), pair("a", "a😀b"));
    assert_eq!(shown("a😀b", Vec::new(), 5), pair("a😀", "a😀b"));
    assert_eq!(shown(r"\n\n\n", Vec::new(), 2), pair("\n\n", "\n\n\n"));
    assert_eq!(shown("abc", Vec::new(), 0), pair("", "abc"));
}

// R092
#[test]
fn a_mask_is_shown_whole_or_not_at_all() {
    let raw = "ab SECRET cd";
    let whole = "ab [REDACTED:x] cd";
    for (limit, text) in [
        (3, "ab "),
        (8, "ab "),
        (14, "ab "),
        (15, "ab [REDACTED:x]"),
        (17, "ab [REDACTED:x] c"),
    ] {
        assert_eq!(shown(raw, vec![mask(3..9)], limit), pair(text, whole), "{limit}");
    }
    assert_eq!(shown(raw, vec![mask(3..9)], 18), None);
    // What is stripped does not count.
    assert_eq!(shown(r"a\u200bbc", vec![Edit::removal(1..7)], 3), None);
    assert_eq!(shown(r"a\u200bbc", vec![Edit::removal(1..7)], 2), pair("ab", "abc"));
}

#[test]
fn the_notices_are_json_and_go_where_they_belong() {
    let notice = Notice {
        key: "k\"1",
        block: 0,
        shown: 4,
        bytes: 10,
        unit: Unit::Bytes,
        next: 4,
        total: 10,
    };
    let text = "[portreeve: output truncated, 4 of 10 bytes shown. Read on with portreeve__read_cache: key \\\"k\\\\\\\"1\\\", offset 4 of 10 bytes.]";
    let block = format!(r#"{{"type":"text","text":"{text}"}}"#);
    assert_eq!(notice.text_block(), block);
    let object =
        r#"{"key":"k\"1","block":0,"shown_bytes":4,"total_bytes":10,"unit":"bytes","next_offset":4,"end_offset":10}"#;
    let member = format!(r#""portreeve/truncated":{object}"#);
    assert_eq!(meta_member(&[notice]), Some(member.clone()));
    assert_eq!(meta_member(&[]), None);
    let first = object.strip_suffix('}').unwrap();
    let both = format!(r#""portreeve/truncated":{first},"more":[{object}]}}"#);
    assert_eq!(meta_member(&[notice, notice]), Some(both));

    let content = r#"{"type":"text","text":"abcd"}"#;
    for (before, after) in [
        (
            format!(r#"{{"content":[{content}]}}"#),
            format!(r#"{{"_meta":{{{member}}},"content":[{content},{block}]}}"#),
        ),
        (
            format!(r#"{{"_meta":{{}},"content":[{content},{content}]}}"#),
            format!(r#"{{"_meta":{{{member}}},"content":[{content},{block},{content}]}}"#),
        ),
        (
            format!(r#"{{"content":[ {content} ],"_meta":{{"a":1}}}}"#),
            format!(r#"{{"content":[ {content},{block} ],"_meta":{{{member},"a":1}}}}"#),
        ),
        // A forged one makes room.
        (
            format!(r#"{{"content":[{content}],"_meta":{{"portreeve/truncated":1}}}}"#),
            format!(r#"{{"content":[{content},{block}],"_meta":{{{member}}}}}"#),
        ),
        (
            format!(r#"{{"content":[{content}],"_meta":{{"portreeve/x":1,"a":2}}}}"#),
            format!(r#"{{"content":[{content},{block}],"_meta":{{{member},"a":2}}}}"#),
        ),
    ] {
        let walked = walk(before.as_bytes(), Message::ToolResult).unwrap();
        let mut edits = Edits::default();
        edits.add_at(0, notices(&walked, &[notice]));
        for range in walked.forged() {
            edits.add(Edit::removal(range.clone()));
        }
        assert_eq!(edits.apply(&Bytes::from(before)).unwrap(), after);
        serde_json::from_str::<serde_json::Value>(&after).unwrap();
    }
}

/// A page without a bound on its bytes.
fn page(whole: &str, offset: usize, limit: usize) -> Page<'_> {
    let wanted = Wanted {
        offset,
        limit,
        most_bytes: usize::MAX,
    };
    Index::of(whole).page(whole, &wanted)
}

#[test]
fn arrays_are_counted_in_records() {
    let whole = r#" [ {"a":1}, [2] ,3 ] "#;
    let pages = |limit| {
        let (mut pages, mut at) = (Vec::new(), Some(0));
        while let Some(offset) = at {
            let page = page(whole, offset, limit);
            assert_eq!((page.unit, page.total), (Unit::Records, 3));
            pages.push(page.text);
            at = page.next;
        }
        pages
    };
    assert_eq!(pages(1), [r#" [ {"a":1}, "#, "[2] ,", "3 ] "]);
    assert_eq!(pages(2), [r#" [ {"a":1}, [2] ,"#, "3 ] "]);
    assert_eq!(pages(usize::MAX), [whole]);
    assert_eq!(page(whole, 3, 1).text, "");
    let within = |shown| Index::of(whole).within(whole, shown);
    assert_eq!([0, 8, 10, 12, 17, usize::MAX].map(within), [0, 0, 1, 1, 2, 3]);
    assert_eq!(Index::of("[1,2").within("[1,2", 4), 4);
    for text in ["[]", "{}", "[1] x", "[1,]", "", "plain"] {
        assert_eq!(page(text, 0, 9).unit, Unit::Bytes, "{text}");
    }
    let cut = cut(b"[10,20,30]", &[], 5).unwrap();
    assert_eq!(cut.notice("k", 0).next, 1);
}

#[test]
fn pages_of_text_keep_characters_whole() {
    let whole = "aé😀b";
    let first = page(whole, 0, 2);
    let expected = Page {
        text: "a",
        unit: Unit::Bytes,
        next: Some(2),
        total: 8,
    };
    assert_eq!(first, expected);
    assert_eq!(page(whole, 2, 2).text, "é");
    assert_eq!(page(whole, 4, 3).text, "😀");
    assert_eq!(page(whole, 9, 3).text, "");
    assert_eq!(page(whole, usize::MAX, usize::MAX).text, "");
    assert_eq!(page(whole, 0, 0).next, Some(1), "there is always a way on");
}

#[test]
fn a_page_holds_as_many_records_as_fit_and_at_least_one() {
    let whole = r#"["aaaa","b","c","dddddddd","e"]"#;
    let index = Index::of(whole);
    let page = |offset, limit, most_bytes| {
        let page = index.page(
            whole,
            &Wanted {
                offset,
                limit,
                most_bytes,
            },
        );
        (page.text, page.next)
    };
    assert_eq!(page(0, usize::MAX, 16), (r#"["aaaa","b","c","#, Some(3)));
    assert_eq!(page(0, usize::MAX, 15), (r#"["aaaa","b","#, Some(2)));
    assert_eq!(page(0, 2, 15), (r#"["aaaa","b","#, Some(2)));
    assert_eq!(page(0, usize::MAX, 3), (r#"["aaaa","#, Some(1)));
    assert_eq!(page(3, usize::MAX, 3), (r#""dddddddd","#, Some(4)));
    assert_eq!(page(4, usize::MAX, 4), (r#""e"]"#, None));
    assert_eq!(page(4, usize::MAX, 1), (r#""e"]"#, None));
    let (text, most) = ("aé😀b", 2);
    let pages = (0..8).map(|offset| {
        let wanted = Wanted {
            offset,
            limit: usize::MAX,
            most_bytes: most,
        };
        Index::of(text).page(text, &wanted).text.len()
    });
    assert!(pages.into_iter().all(|length| length <= 4), "no character is halved");
}

// A list of small numbers has half as many records as bytes.
#[test]
fn a_page_of_a_long_list_costs_no_more_than_the_page() {
    let whole = format!("[{}1]", "1,".repeat(8 << 20));
    let index = Index::of(&whole);
    assert!(index.marks() < 1 << 10, "the index is small: {}", index.marks());
    let began = std::time::Instant::now();
    for offset in (0..8 << 20).step_by(1 << 16) {
        let wanted = Wanted {
            offset,
            limit: usize::MAX,
            most_bytes: 1000,
        };
        let page = index.page(&whole, &wanted);
        assert_eq!(
            (page.text.len(), page.next.is_some()),
            (if offset == 0 { 999 } else { 1000 }, true)
        );
    }
    // Read from the beginning each time, these would be a gigabyte.
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

proptest! {
    // R093
    #[test]
    fn pages_of_bounded_length_together_are_the_whole(
        whole in prop_oneof!["\\PC{0,40}", "\\[ ?([0-9]{1,3}, ?|\"[a-z,\\]é]{0,5}\", ?|\\{\"a\":\\[1\\]\\}, ?){0,9}1 ?\\]"],
        (limit, most_bytes) in (0_usize..12, 0_usize..20),
    ) {
        let index = Index::of(&whole);
        let (mut read, mut at) = (String::new(), Some(0));
        while let Some(offset) = at {
            let page = index.page(&whole, &Wanted { offset, limit, most_bytes });
            prop_assert!(page.next.is_none_or(|next| next > offset));
            read.push_str(page.text);
            at = page.next;
        }
        prop_assert_eq!(&read, &whole);
    }

    // R093
    #[test]
    fn all_pages_together_are_the_whole(
        whole in prop_oneof!["\\PC{0,40}", "\\[ ?([0-9]{1,3}, ?|\"[a-z,\\]é]{0,5}\", ?|\\{\"a\":\\[1\\]\\}, ?){0,9}1 ?\\]"],
        limit in 0_usize..12,
    ) {
        let (mut read, mut at) = (String::new(), Some(0));
        while let Some(offset) = at {
            let page = page(&whole, offset, limit);
            prop_assert!(page.next.is_none_or(|next| next > offset));
            read.push_str(page.text);
            at = page.next;
        }
        prop_assert_eq!(&read, &whole);
        // A reader that counts for itself reads the same.
        let step = limit.max(1);
        let counted: String = (0..=whole.len()).step_by(step).map(|offset| page(&whole, offset, step).text).collect();
        prop_assert_eq!(counted, whole);
    }

    #[test]
    fn what_is_shown_begins_the_whole(
        raw in "(a|é|😀|\\\\n|\\\\u00e9|\\\\ud83d\\\\ude00|\\\\\\\\){1,20}",
        limit in 0_usize..40,
    ) {
        let whole = decoded(raw.as_bytes());
        match shown(&raw, Vec::new(), limit) {
            None => prop_assert!(whole.len() <= limit),
            Some((short, kept)) => {
                prop_assert_eq!(&kept, &whole);
                prop_assert!(whole.starts_with(&short) && short.len() <= limit && short.len() + 4 > limit);
            }
        }
    }
}

#[test]
fn a_string_of_ours_escapes_what_json_cannot_hold() {
    let text = "a\"b\\c\u{0}\u{1f}\n é";
    assert_eq!(serde_json::from_str::<String>(&json_string(text)).unwrap(), text);
}

#[test]
fn an_index_knows_where_its_offsets_end() {
    for (whole, unit, total) in [
        ("abc é", Unit::Bytes, 6),
        ("[]", Unit::Bytes, 2),
        ("[1,2,3]", Unit::Records, 3),
    ] {
        let index = Index::of(whole);
        assert_eq!((index.unit(), index.total()), (unit, total), "{whole}");
    }
}
