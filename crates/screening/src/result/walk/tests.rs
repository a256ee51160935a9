//! Every kind of message, in every order and spelling.

use proptest::prelude::*;

use super::*;

/// A literal in words: what it says, what it is, where it stands, whether it may be edited.
type Told<'a> = (&'a str, LiteralKind, Place, Editable);

fn told(raw: &str, message: Message) -> Vec<Told<'_>> {
    let walked = walk(raw.as_bytes(), message).unwrap();
    let tell = |literal: &Literal| {
        (
            raw.get(literal.span()).unwrap(),
            literal.kind(),
            literal.place(),
            walked.editable(literal),
        )
    };
    walked.literals().iter().map(tell).collect()
}

fn block(block: u32, part: Part) -> Place {
    Place::Block { block, part }
}

const YES: Editable = Editable::Yes;
const NO: Editable = Editable::No;
const TEXT: LiteralKind = LiteralKind::Text;
const NAME: LiteralKind = LiteralKind::Name;

/// A result with a block of each kind.
const RESULT: &str = r#" {"content":[
        {"type":"text","text":"one","annotations":{"audience":["user"]},"_meta":{"k":"v"},"odd":"o"},
        {"data":"iVBORw0KGgonaW1naW1naW1naW1naW1naW1naW1naW1naW1naW1naW1naW1naW1n","type":"image","mimeType":"image/png","_meta":{"a":"b"}},
        {"type":"audio","data":"UklGRkF1ZGlvYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVk","mimeType":"audio/wav"},
        {"type":"resource","resource":{"uri":"file:///a","text":"inner","blob":"YmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJs"}},
        {"type":"resource_link","uri":"file:///b","name":"n"},
        {"type":"video","text":"what"},
        {"text":"no type"},
        "bare"
      ],"structuredContent":{"items":[{"state":"open","id":123456,"n":12}],"e":""},
      "isError":false,"_meta":{"trace":"t"},"later":{"x":"y"},"resultType":"complete"} "#;

#[test]
fn a_tool_result_is_told_part_by_part() {
    assert_eq!(
        told(RESULT, Message::ToolResult),
        vec![
            ("one", TEXT, block(0, Part::Text), YES),
            ("audience", NAME, block(0, Part::Annotations), NO),
            ("user", TEXT, block(0, Part::Annotations), NO),
            ("k", NAME, block(0, Part::Other), NO),
            ("v", TEXT, block(0, Part::Other), YES),
            ("odd", NAME, block(0, Part::Other), NO),
            ("o", TEXT, block(0, Part::Other), YES),
            (
                "iVBORw0KGgonaW1naW1naW1naW1naW1naW1naW1naW1naW1naW1naW1naW1naW1n",
                TEXT,
                block(1, Part::Data),
                NO
            ),
            ("image/png", TEXT, block(1, Part::Protocol), NO),
            ("a", NAME, block(1, Part::Other), NO),
            ("b", TEXT, block(1, Part::Other), NO),
            (
                "UklGRkF1ZGlvYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVk",
                TEXT,
                block(2, Part::Data),
                NO
            ),
            ("audio/wav", TEXT, block(2, Part::Protocol), NO),
            ("file:///a", TEXT, block(3, Part::Embedded), NO),
            ("inner", TEXT, block(3, Part::Embedded), NO),
            (
                "YmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJsYmxvYmJs",
                TEXT,
                block(3, Part::File),
                NO
            ),
            ("file:///b", TEXT, block(4, Part::Protocol), NO),
            ("name", NAME, block(4, Part::Other), NO),
            ("n", TEXT, block(4, Part::Other), NO),
            ("video", TEXT, block(5, Part::Protocol), NO),
            ("what", TEXT, block(5, Part::Text), NO),
            ("no type", TEXT, block(6, Part::Text), YES),
            ("bare", TEXT, block(7, Part::Text), YES),
            ("items", NAME, Place::Structured, NO),
            ("state", NAME, Place::Structured, NO),
            ("open", TEXT, Place::Structured, YES),
            ("id", NAME, Place::Structured, NO),
            ("123456", LiteralKind::Number, Place::Structured, NO),
            ("n", NAME, Place::Structured, NO),
            ("e", NAME, Place::Structured, NO),
            ("trace", NAME, Place::Meta, NO),
            ("t", TEXT, Place::Meta, YES),
            ("later", NAME, Place::Meta, NO),
            ("x", NAME, Place::Meta, NO),
            ("y", TEXT, Place::Meta, YES),
            ("complete", TEXT, Place::Protocol, NO),
        ]
    );
}

#[test]
fn blocks_are_what_they_call_themselves() {
    let walked = walk(RESULT.as_bytes(), Message::ToolResult).unwrap();
    let kinds: Vec<_> = walked.blocks().iter().map(|block| block.kind).collect();
    assert_eq!(
        kinds,
        [
            BlockKind::Text,
            BlockKind::Image,
            BlockKind::Audio,
            BlockKind::Resource,
            BlockKind::ResourceLink,
            BlockKind::Unknown,
            // What does not say what it is may be read as text.
            BlockKind::Text,
            BlockKind::Text,
        ]
    );
    let unscanned: Vec<_> = walked
        .literals()
        .iter()
        .filter(|literal| walked.scanned(literal) == Scanned::No)
        .map(|literal| RESULT.get(literal.span()).unwrap())
        .collect();
    assert_eq!(
        unscanned,
        [
            "iVBORw0KGgonaW1naW1naW1naW1naW1naW1naW1naW1naW1naW1naW1naW1naW1n",
            "UklGRkF1ZGlvYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVkYXVk"
        ]
    );
    let inside = |literal: &&Literal| walked.scanned(literal) == Scanned::Inside;
    let files: Vec<_> = walked.literals().iter().filter(inside).collect();
    assert_eq!(files.len(), 1, "a file without a label");
    assert_eq!(
        RESULT.get(walked.blocks()[6].span.clone()).unwrap(),
        r#"{"text":"no type"}"#
    );
    assert_eq!(RESULT.get(walked.blocks()[7].span.clone()).unwrap(), r#""bare""#);
    assert!(walked.blocks().iter().all(|block| block.in_list));
}

#[test]
fn order_and_spelling_of_members_do_not_matter() {
    let text = [("hi", TEXT, block(0, Part::Text), YES)];
    for raw in [
        r#"{"content":[{"text":"hi","type":"text"}]}"#,
        r#"{"c\u006fntent":[{"t\u0065xt":"hi","typ\u0065":"t\u0065xt"}]}"#,
        r#"{"content":[{"type":"image","text":"hi","type":"text"}]}"#,
        r#"{"content":[{"type":"text","text":"hi","type":"image"}]}"#,
    ] {
        assert_eq!(told(raw, Message::ToolResult), text, "{raw}");
    }
    let twice = r#"{"content":[{"type":"text","text":"a","te\u0078t":"b"}],"content":[{"type":"text","text":"c"}]}"#;
    assert_eq!(
        told(twice, Message::ToolResult),
        [
            ("a", TEXT, block(0, Part::Text), YES),
            ("b", TEXT, block(0, Part::Text), YES),
            ("c", TEXT, block(1, Part::Text), YES),
        ]
    );
}

#[test]
fn text_that_follows_text_is_joined() {
    let raw = r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"image","data":"x"},
        {"type":"text","text":"c"}]}"#;
    let walked = walk(raw.as_bytes(), Message::ToolResult).unwrap();
    let joined: Vec<_> = (0..5).map(|block| walked.joins_previous(block)).collect();
    assert_eq!(joined, [false, true, false, false, false]);
    let texts: Vec<_> = walked
        .literals()
        .iter()
        .filter_map(|literal| walked.text_of(literal))
        .collect();
    assert_eq!(texts, [0, 1, 3]);
}

#[test]
fn resources_are_fenced_by_their_type() {
    for (mime, fenced) in [
        (r#""mimeType":"text/plain","#, true),
        (r#""mimeType":"Text/Markdown; charset=utf-8","#, true),
        (r#""mimeType":"text/ht\u006dl","#, true),
        (r#""mimeType":null,"#, true),
        ("", true),
        (r#""mimeType":"application/json","#, false),
        (r#""mimeType":"application/json","mimeType":"text/plain","#, true),
    ] {
        let raw = format!(r#"{{"contents":[{{"uri":"u",{mime}"text":"t"}}]}}"#);
        let walked = walk(raw.as_bytes(), Message::ResourceRead).unwrap();
        let text = walked
            .literals()
            .iter()
            .find(|literal| walked.text_of(literal) == Some(0))
            .unwrap();
        assert_eq!(walked.is_fenced(text), fenced, "{mime}");
        assert_eq!(walked.editable(text), Editable::Yes);
        assert!(!walked.blocks()[0].in_list);
    }
    let raw = r#"{"contents":[{"uri":"u","blob":"YQ==","_meta":{"m":"n"}}],"nextCursor":"c"}"#;
    assert_eq!(
        told(raw, Message::ResourceRead),
        [
            ("u", TEXT, block(0, Part::Protocol), NO),
            ("YQ==", TEXT, block(0, Part::Misplaced), NO),
            ("m", NAME, block(0, Part::Other), NO),
            ("n", TEXT, block(0, Part::Other), YES),
            ("nextCursor", NAME, Place::Meta, NO),
            ("c", TEXT, Place::Meta, YES),
        ]
    );
}

#[test]
fn other_messages_have_their_texts_where_they_have_them() {
    let prompt = r#"{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"t"}},
        {"role":"user","content":{"type":"image","data":"x"}}]}"#;
    assert_eq!(
        told(prompt, Message::PromptGet),
        [
            ("description", NAME, Place::Meta, NO),
            ("d", TEXT, Place::Meta, YES),
            ("user", TEXT, Place::Protocol, NO),
            ("t", TEXT, block(0, Part::Text), YES),
            ("user", TEXT, Place::Protocol, NO),
            ("x", TEXT, block(1, Part::Misplaced), NO),
        ]
    );
    let sampling = r#"{"messages":[{"content":[{"type":"image","data":"x"}]}],"systemPrompt":"s"}"#;
    assert_eq!(
        told(sampling, Message::Other),
        [
            ("x", TEXT, block(0, Part::Misplaced), NO),
            ("systemPrompt", NAME, Place::Free, NO),
            ("s", TEXT, Place::Free, YES),
        ]
    );
    let error = r#"{"code":-32000,"message":"m","data":{"k":["v"]}}"#;
    assert_eq!(
        told(error, Message::Other),
        [
            ("code", NAME, Place::Free, NO),
            ("-32000", LiteralKind::Number, Place::Free, NO),
            ("message", NAME, Place::Free, NO),
            ("m", TEXT, Place::Free, YES),
            ("data", NAME, Place::Free, NO),
            ("k", NAME, Place::Free, NO),
            ("v", TEXT, Place::Free, YES),
        ]
    );
    let definition = r#"{"tools":[{"name":"n"}]}"#;
    assert_eq!(
        told(definition, Message::Definitions),
        [
            ("tools", NAME, Place::Definition, NO),
            ("name", NAME, Place::Definition, NO),
            ("n", TEXT, Place::Definition, NO),
        ]
    );
    assert_eq!(told("\"x\"", Message::Other), [("x", TEXT, Place::Free, YES)]);
    assert_eq!(
        told("[\"x\"]", Message::Definitions),
        [("x", TEXT, Place::Definition, NO)]
    );
}

#[test]
fn a_literal_knows_the_name_it_stands_under() {
    let raw = r#"{"structuredContent":{"c\u0061rd":[[4111111111111111]],"a":{"b":"x"}},"_meta":{}}"#;
    let walked = walk(raw.as_bytes(), Message::ToolResult).unwrap();
    let names: Vec<_> = walked
        .literals()
        .iter()
        .filter(|literal| literal.kind() != LiteralKind::Name)
        .map(|literal| {
            (
                raw.get(literal.span()).unwrap(),
                literal.name(raw.as_bytes()).unwrap().into_owned(),
            )
        })
        .collect();
    assert_eq!(names, [("4111111111111111", "card".to_owned()), ("x", "b".to_owned())]);
    assert_eq!(
        walk(b"\"x\"", Message::Other).unwrap().literals()[0].name(b"\"x\""),
        None
    );
}

// Attack 20
#[test]
fn members_that_bear_our_name_are_told_of_every_meta_that_the_protocol_knows() {
    let meta = r#""_m\u0065ta":{"x":1,"portreeve/a":{"b":"FORGED"}}"#;
    for (message, raw, metas) in [
        (
            Message::ToolResult,
            r#"{META,"content":[{"type":"text","text":"a",META},{"type":"resource","resource":{"uri":"u",META},META}]}"#,
            4,
        ),
        (
            Message::ResourceRead,
            r#"{"contents":[{"uri":"u","text":"a",META}]}"#,
            1,
        ),
        (
            Message::PromptGet,
            r#"{"messages":[{"role":"user",META,"content":{META,"type":"text"}}]}"#,
            2,
        ),
        (
            Message::Other,
            r#"{"params":{META,"messages":[{META,"content":[{META}]}],"tools":[{"name":"a",META}]},META}"#,
            5,
        ),
        (Message::TaskState, r#"{META,"result":{META,"content":[{META}]}}"#, 3),
        (Message::Definitions, r#"{"name":"a",META}"#, 1),
        // Data of a tool, and a schema, are nobody's messages.
        (Message::ToolResult, r#"{"structuredContent":{META}}"#, 0),
        (Message::Definitions, r#"{"inputSchema":{"properties":{META}}}"#, 0),
    ] {
        let raw = raw.replace("META", meta);
        let walked = walk(raw.as_bytes(), message).unwrap();
        let mut edits = crate::result::edit::Edits::default();
        for range in walked.forged() {
            edits.add(crate::result::edit::Edit::removal(range.clone()));
        }
        assert_eq!(walked.forged().len(), metas, "{raw}");
        let edited = edits.apply(&bytes::Bytes::from(raw.clone())).unwrap();
        let edited: serde_json::Value = serde_json::from_slice(&edited).unwrap();
        assert_eq!(edited.to_string().contains("FORGED"), metas == 0, "{edited}");
    }
}

// Attack 20
#[test]
fn members_that_bear_our_name_are_told_with_their_commas() {
    for (meta, rest) in [
        (r#"{"portreeve/truncated":{"key":"k"}}"#, "{}"),
        (r#"{ "portreeve/a":1 , "b":2}"#, r#"{  "b":2}"#),
        (r#"{"b":2 , "portreeve/a":[1,2] }"#, r#"{"b":2  }"#),
        (r#"{"b":2,"portreeve/a":"x","c":3}"#, r#"{"b":2,"c":3}"#),
        (r#"{"portreeve/a":1,"portreeve\/b":2,"c":3}"#, r#"{"c":3}"#),
        (r#"{"portreeve/a":1,"c":3,"p\u006frtreeve/b":2}"#, r#"{"c":3}"#),
        (r#"{"portreeve/a":1,"portreeve/a":2}"#, "{}"),
        (
            r#"{"x":{"portreeve/a":1},"portreevex":"y"}"#,
            r#"{"x":{"portreeve/a":1},"portreevex":"y"}"#,
        ),
    ] {
        let raw = format!(r#"{{"content":[],"_meta":{meta}}}"#);
        let walked = walk(raw.as_bytes(), Message::ToolResult).unwrap();
        let mut edits = crate::result::edit::Edits::default();
        for range in walked.forged() {
            edits.add(crate::result::edit::Edit::removal(range.clone()));
        }
        let edited = edits.apply(&bytes::Bytes::from(raw.clone())).unwrap();
        assert_eq!(edited, format!(r#"{{"content":[],"_meta":{rest}}}"#), "{meta}");
        let has_members = rest.contains(':');
        let [braces] = walked.metas() else { panic!("{meta}") };
        assert_eq!(
            (braces.has_members, raw.get(..braces.open).unwrap()),
            (has_members, r#"{"content":[],"_meta":{"#)
        );
        // Nothing that goes is told.
        let gone = |literal: &Literal| {
            walked
                .forged()
                .iter()
                .any(|range| range.contains(&literal.span().start))
        };
        assert!(!walked.literals().iter().any(gone));
    }
}

#[test]
fn pointers_print_known_names_and_count_others() {
    let raw = r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{"items":[{},{"state":"b","evil \"x\"":{"y":"c"}}],
        "evil \"x\"":"d","a/b":"e"}}"#;
    let walked = walk(raw.as_bytes(), Message::ToolResult).unwrap();
    let places: Vec<usize> = walked.literals().iter().map(|literal| literal.span().start).collect();
    let known = ["content", "text", "structuredContent", "items", "state", "a/b"];
    let pointers = pointers(raw.as_bytes(), &places, &|name| known.contains(&name)).unwrap();
    assert_eq!(
        pointers,
        [
            "/content/0/text",
            "/structuredContent/items",
            "/structuredContent/items/1/state",
            "/structuredContent/items/1/state",
            "/structuredContent/items/1/<unexpected key #1>",
            "/structuredContent/items/1/<unexpected key #1>/<unexpected key #2>",
            "/structuredContent/items/1/<unexpected key #1>/<unexpected key #2>",
            "/structuredContent/<unexpected key #1>",
            "/structuredContent/<unexpected key #1>",
            "/structuredContent/a~1b",
            "/structuredContent/a~1b",
        ]
    );
    assert_eq!(super::pointers(b"\"x\"", &[1], &|_| true).unwrap(), [""]);
}

#[test]
fn what_is_not_json_is_refused_and_depth_costs_no_stack() {
    for raw in [
        "",
        "{",
        "[1,]",
        r#"{"a" "b"}"#,
        r#"{"a":1,}"#,
        "[1}",
        "1 2",
        "\"\u{1}\"",
        r#""\x""#,
        "nul",
        "{1:2}",
    ] {
        assert!(walk(raw.as_bytes(), Message::ToolResult).is_err(), "{raw}");
    }
    assert!(walk(b"\"\xff\"", Message::Other).is_err());
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    assert!(walk(deep(511).as_bytes(), Message::Other).is_ok());
    assert_eq!(walk(deep(512).as_bytes(), Message::Other), Err(SpanFault::TooDeep));
    assert_eq!(
        walk("[".repeat(1_000_000).as_bytes(), Message::Other),
        Err(SpanFault::TooDeep)
    );
    assert_eq!(
        walk(r#"{"a":"#.repeat(1_000_000).as_bytes(), Message::Other),
        Err(SpanFault::TooDeep)
    );
}

/// Every string of a tree, empty ones left out, and every long number.
fn strings(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => found.push(text.clone()),
        serde_json::Value::Number(number) => found.push(number.to_string()),
        serde_json::Value::Array(elements) => elements.iter().for_each(|element| strings(element, found)),
        serde_json::Value::Object(members) => {
            for (name, value) in members {
                found.push(name.clone());
                strings(value, found);
            }
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) => {}
    }
}

fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<u32>().prop_map(|number| serde_json::json!(u64::from(number) + 1000)),
        "[a-zé\"\\\\\n]{1,8}".prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
        Just(serde_json::Value::Bool(true)),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            proptest::collection::btree_map("[a-e\"]{1,3}", inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_string_and_number_is_told(tree in tree()) {
        let raw = tree.to_string();
        let walked = walk(raw.as_bytes(), Message::Other).unwrap();
        let told: Vec<String> = walked
            .literals()
            .iter()
            .map(|literal| crate::result::edit::units::decoded(&raw.as_bytes()[literal.span()]))
            .collect();
        let mut expected = Vec::new();
        strings(&tree, &mut expected);
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn no_bytes_make_it_panic(raw in "[\\[\\]{}:,\"\\\\a0-9_metcont ]{0,60}") {
        for message in [Message::ToolResult, Message::ResourceRead, Message::PromptGet, Message::Other] {
            let library = serde_json::from_str::<&serde_json::value::RawValue>(&raw).is_ok();
            prop_assert_eq!(walk(raw.as_bytes(), message).is_ok(), library);
        }
    }
}

#[test]
fn strings_are_beside_each_other_in_one_array_only() {
    let raw =
        r#"{"structuredContent":{"a":["one","two",12345678901234567],"b":"three","c":{"four":"five"}},"content":[]}"#;
    let walked = walk(raw.as_bytes(), Message::ToolResult).unwrap();
    let literal = |text: &str| {
        let mut all = walked.literals().iter();
        all.find(|literal| raw.get(literal.span()) == Some(text)).unwrap()
    };
    let beside = |one: &str, two: &str| literal(one).is_beside(literal(two));
    assert!(beside("one", "two") && beside("two", "one"));
    for (one, two) in [
        ("two", "12345678901234567"),
        ("12345678901234567", "two"),
        ("two", "three"),
        ("three", "five"),
        ("b", "c"),
    ] {
        assert!(!beside(one, two), "{one} {two}");
    }
    let bare = walk(br#"["six","seven"]"#, Message::Other).unwrap();
    let [six, seven] = bare.literals() else {
        panic!("{bare:?}")
    };
    assert!(!six.is_beside(seven), "of no member");
}

#[test]
fn a_value_is_spoken_of_by_what_its_pair_calls_it() {
    let spoken = |raw: &str, value: &str| {
        let walked = walk(raw.as_bytes(), Message::ToolResult).unwrap();
        let mut all = walked.literals().iter();
        let index = all.position(|literal| raw.get(literal.span()) == Some(value)).unwrap();
        walked.spoken_of(raw.as_bytes(), index).map(|name| name.into_owned())
    };
    let within = |object: &str| format!(r#"{{"structuredContent":{{"list":[{object}]}},"content":[]}}"#);
    for (object, name) in [
        (r#"{"name":"TOKEN","value":"it"}"#, "TOKEN"),
        (r#"{"value":"it","name":"TOKEN"}"#, "TOKEN"),
        (r#"{"KEY":"TOKEN","Value":"it"}"#, "TOKEN"),
        (r#"{"more":["x","y"]},{"value":"it","name":"TOKEN"}"#, "TOKEN"),
        (r#"{"name":"TOKEN","kind":"x","value":"it"}"#, "value"),
        (r#"{"name":"TOKEN"},{"value":"it"}"#, "value"),
        (r#"{"other":"TOKEN","value":"it"}"#, "value"),
    ] {
        assert_eq!(spoken(&within(object), "it").as_deref(), Some(name), "{object}");
    }
    // As much as may stand between the two strings, and a little more.
    let between = |length: usize| {
        let space = " ".repeat(length - r#"","value":""#.len());
        within(&format!(r#"{{"name":"TOKEN",{space}"value":"it"}}"#))
    };
    assert_eq!(spoken(&between(128), "it").as_deref(), Some("TOKEN"));
    assert_eq!(spoken(&between(129), "it").as_deref(), Some("value"));
}

#[test]
fn known_names_are_known_in_their_longest_spelling() {
    let spelled: String = "structuredContent"
        .bytes()
        .map(|byte| format!("\\u{byte:04x}"))
        .collect();
    let raw = format!(r#"{{"{spelled}":{{"a":"b"}},"content":[]}}"#);
    assert_eq!(
        told(&raw, Message::ToolResult),
        [("a", NAME, Place::Structured, NO), ("b", TEXT, Place::Structured, YES)]
    );
}

#[test]
fn the_contents_of_a_resource_lie_where_their_braces_are() {
    let raw = r#"{"contents":[ {"uri":"a:b","text":"x"} ,{"uri":"a:c","text":"y"}]}"#;
    let walked = walk(raw.as_bytes(), Message::ResourceRead).unwrap();
    let lie: Vec<_> = walked
        .blocks()
        .iter()
        .map(|block| raw.get(block.span.clone()).unwrap())
        .collect();
    assert_eq!(lie, [r#"{"uri":"a:b","text":"x"}"#, r#"{"uri":"a:c","text":"y"}"#]);
}

#[test]
fn what_says_two_things_of_itself_is_unknown_unless_one_is_text() {
    let kind = |types: &[&str]| {
        let types: Vec<_> = types.iter().map(|name| format!(r#""type":"{name}""#)).collect();
        let raw = format!(r#"{{"content":[{{{}}}]}}"#, types.join(","));
        walk(raw.as_bytes(), Message::ToolResult).unwrap().blocks()[0].kind
    };
    assert_eq!(kind(&["image", "image"]), BlockKind::Image);
    assert_eq!(kind(&["image", "audio"]), BlockKind::Unknown);
    assert_eq!(kind(&["image", "text"]), BlockKind::Text);
    assert_eq!(kind(&["text", "image"]), BlockKind::Text);
}

#[test]
fn words_of_the_protocol_are_known_where_they_stand() {
    let task = r#"{"taskId":"t","status":"s","result":{"taskId":"u"}}"#;
    assert_eq!(
        told(task, Message::TaskState),
        [
            ("t", TEXT, Place::Protocol, NO),
            ("s", TEXT, Place::Protocol, NO),
            ("taskId", NAME, Place::Meta, NO),
            ("u", TEXT, Place::Meta, YES),
        ]
    );
    let embedded = r#"{"content":[{"type":"resource","resource":{"uri":"a:b","mimeType":"image/png","text":"x"}}]}"#;
    assert_eq!(
        told(embedded, Message::ToolResult),
        [
            ("a:b", TEXT, block(0, Part::Embedded), NO),
            ("image/png", TEXT, block(0, Part::Embedded), NO),
            ("x", TEXT, block(0, Part::Embedded), NO),
        ]
    );
    let asked = r#"{"params":{"messages":[{"role":"user","content":{"type":"image","data":"x"}}]}}"#;
    assert_eq!(
        told(asked, Message::Other),
        [
            ("params", NAME, Place::Free, NO),
            ("user", TEXT, Place::Protocol, NO),
            ("x", TEXT, block(0, Part::Misplaced), NO),
        ]
    );
}

#[test]
fn in_the_state_of_a_task_the_result_says_what_was_cut() {
    let raw = r#"{"taskId":"t","result":{},"_meta":{"a":1}}"#;
    let walked = walk(raw.as_bytes(), Message::TaskState).unwrap();
    let open = raw.find("{}").unwrap() + 1;
    let empty = |open| Braces {
        open,
        has_members: false,
    };
    assert_eq!((walked.top(), walked.metas()), (Some(empty(open)), &[][..]));
    let raw = r#"{"result":{"_meta":{}},"_meta":{"a":1},"taskId":"t"}"#;
    let walked = walk(raw.as_bytes(), Message::TaskState).unwrap();
    assert_eq!(walked.metas(), [empty(raw.find("{}").unwrap() + 1)]);
}

#[test]
fn pictures_that_are_text_are_other_files() {
    for (mime, label) in [
        ("image/png", Label::Binary),
        ("IMAGE/PNG; q=1", Label::Binary),
        ("image/svg+xml", Label::Other),
        ("image/odd+json", Label::Other),
        ("text/plain", Label::Other),
    ] {
        assert_eq!(Label::of(mime.as_bytes()), label, "{mime}");
    }
}
