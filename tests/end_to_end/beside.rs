//! Prompts, resources, templates and instructions are pinned as tools are: every member, on every page, in both eras, for completions
//! and subscriptions too.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::inventory::entries;
use super::pins::{changed, entry, spelled_otherwise, told};
use crate::support::{Agent, Answer, Harbour, Issuer, Modern, Peer, Setup, Speaks, Turn, eventually};

/// A kind of what a server lists beside its tools.
struct Kind {
    word: &'static str,
    /// The method that lists it, and the member its entries stand in.
    list: &'static str,
    member: &'static str,
    /// What an entry is known by.
    id: &'static str,
    full: fn(&str) -> Value,
    changes: &'static [(&'static str, &'static str)],
}

/// What every kind has, each changed in one way or taken out (`null`).
macro_rules! common {
    ($($own:expr),* $(,)?) => {
        &[
            ("/title", r#""another""#),
            ("/title", "null"),
            ("/description", r#""says more""#),
            ("/description", r#""Tells it.\u200b""#),
            ("/description", "null"),
            ("/icons/0/src", r#""https://icons.example/b.png""#),
            ("/icons/0/mimeType", r#""image/svg+xml""#),
            ("/icons/0/sizes", r#"["96x96"]"#),
            ("/icons", "null"),
            ("/_meta/example.com~1a", "2"),
            ("/_meta/example.com~1a", "null"),
            ("/_meta/example.com~1b", "true"),
            ("/_meta", "null"),
            ("/unknown", "[1,2,4]"),
            ("/unknown", "null"),
            ("/unheard", r#""of""#),
            $($own),*
        ]
    };
}

const KINDS: [Kind; 3] = [
    Kind {
        word: "prompt",
        list: "prompts/list",
        member: "prompts",
        id: "name",
        full: full_prompt,
        changes: common![
            ("/arguments/0/name", r#""thing""#),
            ("/arguments/0/title", r#""Thing""#),
            ("/arguments/0/description", r#""of which""#),
            ("/arguments/0/required", "false"),
            ("/arguments/0/required", "null"),
            ("/arguments/0/x-unknown", "1"),
            ("/arguments", "[]"),
            ("/arguments", "null"),
        ],
    },
    Kind {
        word: "resource",
        list: "resources/list",
        member: "resources",
        id: "uri",
        full: full_resource,
        changes: common![
            ("/name", r#""other""#),
            ("/mimeType", r#""text/html""#),
            ("/mimeType", "null"),
            ("/size", "11"),
            ("/size", "null"),
            ("/annotations/audience", r#"["assistant"]"#),
            ("/annotations/priority", "1"),
            ("/annotations/lastModified", r#""2026-01-02T00:00:00Z""#),
            ("/annotations/x-unknown", "1"),
            ("/annotations", "null"),
        ],
    },
    Kind {
        word: "template",
        list: "resources/templates/list",
        member: "resourceTemplates",
        id: "uriTemplate",
        full: full_template,
        changes: common![
            ("/name", r#""other""#),
            ("/mimeType", r#""text/html""#),
            ("/mimeType", "null"),
            ("/annotations/audience", r#"["assistant"]"#),
            ("/annotations/priority", "1"),
            ("/annotations/lastModified", r#""2026-01-02T00:00:00Z""#),
            ("/annotations", "null"),
        ],
    },
];

fn with_common(mut definition: Value) -> Value {
    let common = json!({
        "title": "A title", "description": "Tells it.", "unknown": [1, 2, 3], "_meta": {"example.com/a": 1},
        "icons": [{"src": "https://icons.example/a.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    });
    let members = definition.as_object_mut().unwrap();
    members.extend(common.as_object().unwrap().clone());
    definition
}

fn full_prompt(name: &str) -> Value {
    let argument = json!({"name": "topic", "description": "about what", "required": true});
    with_common(json!({"name": name, "arguments": [argument]}))
}

fn full_resource(name: &str) -> Value {
    with_common(
        json!({"uri": format!("note:{name}"), "name": name, "mimeType": "text/plain", "size": 10,
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}}),
    )
}

fn full_template(name: &str) -> Value {
    with_common(
        json!({"uriTemplate": format!("{name}:{{id}}"), "name": name, "mimeType": "text/plain",
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}}),
    )
}

/// The lists of a server, each on pages of seven.
#[derive(Clone, Default)]
struct Pages(Arc<Mutex<Lists>>);

/// The entries of each list, by its member.
type Lists = Vec<(&'static str, Vec<String>)>;

const PAGE: usize = 7;

impl Pages {
    fn before(peer: &Peer) -> Self {
        let pages = Self::default();
        for kind in KINDS {
            let lists = pages.clone();
            peer.on(kind.list, move |seen| {
                let start = seen.json()["params"]["cursor"]
                    .as_str()
                    .map_or(0, |at| at.parse().unwrap());
                let lists = lists.0.lock().unwrap();
                let list = lists.iter().find(|(member, _)| *member == kind.member);
                let list = list.map_or(&[][..], |(_, list)| list);
                let end = list.len().min(start + PAGE);
                let entries = list[start..end].join(",");
                let next = match end < list.len() {
                    true => format!(r#","nextCursor":"{end}""#),
                    false => String::new(),
                };
                Turn::Result(format!(r#"{{"{}":[{entries}]{next}}}"#, kind.member))
            });
        }
        pages
    }

    fn set(&self, member: &'static str, entries: Vec<String>) {
        let mut lists = self.0.lock().unwrap();
        lists.retain(|(known, _)| *known != member);
        lists.push((member, entries));
    }
}

fn spelled(definitions: &[Value]) -> Vec<String> {
    definitions.iter().map(Value::to_string).collect()
}

/// What a client is shown of one kind.
async fn listed(agent: &Agent, kind: &Kind) -> Vec<String> {
    let answer = agent.request(kind.list, json!({})).await;
    ids(&answer, kind)
}

fn ids(answer: &Answer, kind: &Kind) -> Vec<String> {
    let entries = answer.result()[kind.member].as_array().cloned().unwrap_or_default();
    let mut ids: Vec<String> = entries
        .iter()
        .map(|entry| entry[kind.id].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

/// Asks for something in every way in which it can be asked for.
fn uses(kind: &Kind, id: &str) -> Vec<(&'static str, Value)> {
    let argument = json!({"name": "topic", "value": "a"});
    let complete = |reference: Value| ("completion/complete", json!({"ref": reference, "argument": argument}));
    match kind.word {
        "prompt" => vec![
            ("prompts/get", json!({"name": id})),
            complete(json!({"type": "ref/prompt", "name": id})),
        ],
        "resource" => vec![
            ("resources/read", json!({"uri": id})),
            ("resources/subscribe", json!({"uri": id})),
        ],
        "template" => vec![
            ("resources/read", json!({"uri": id.replace("{id}", "1")})),
            ("resources/subscribe", json!({"uri": id.replace("{id}", "1")})),
            complete(json!({"type": "ref/resource", "uri": id})),
        ],
        other => panic!("no kind {other}"),
    }
}

/// How often a server was asked for something of this kind, lists not counted.
fn asked(peer: &Peer) -> usize {
    [
        "prompts/get",
        "resources/read",
        "resources/subscribe",
        "completion/complete",
    ]
    .iter()
    .map(|method| peer.asked(method).len())
    .sum()
}

fn answering(peer: &Peer) {
    peer.always(
        "completion/complete",
        Turn::Result(r#"{"completion":{"values":["a"]}}"#.to_owned()),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_every_member_of_every_kind_waits_and_nothing_else_does() {
    // R215
    let all: usize = KINDS.iter().map(|kind| kind.changes.len()).sum();
    assert!(all >= 60, "{all}");
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let peer = Peer::start(speaks, &["work"]).await;
        answering(&peer);
        let pages = Pages::before(&peer);
        let honest: Vec<Vec<Value>> = KINDS
            .iter()
            .map(|kind| {
                (0..kind.changes.len())
                    .map(|n| (kind.full)(&format!("n{n:02}")))
                    .collect()
            })
            .collect();
        for (kind, definitions) in KINDS.iter().zip(&honest) {
            pages.set(kind.member, spelled(definitions));
        }
        let trust = |setup: Setup| setup.set("servers.peer.trust", "community");
        let harbour = Harbour::before(peer, trust).await;
        let agent = harbour.agent("ann").await;
        for (kind, definitions) in KINDS.iter().zip(&honest) {
            assert_eq!(listed(&agent, kind).await.len(), definitions.len(), "{}", kind.word);
        }
        // Orders, blanks and restarts say nothing.
        let before = told(&harbour.gateway.home);
        for (kind, definitions) in KINDS.iter().zip(&honest) {
            pages.set(kind.member, definitions.iter().rev().map(spelled_otherwise).collect());
        }
        harbour.gateway.home.cli(&["server", "refresh", "peer"]).success();
        let gateway = harbour.gateway.restart().await;
        let harbour = Harbour { gateway, ..harbour };
        let (agent, home) = (harbour.agent("ann").await, &harbour.gateway.home);
        home.cli(&["server", "refresh", "peer"]).success();
        for (kind, definitions) in KINDS.iter().zip(&honest) {
            assert_eq!(listed(&agent, kind).await.len(), definitions.len(), "{}", kind.word);
        }
        assert_eq!(told(home), before, "nothing has changed");
        for (kind, definitions) in KINDS.iter().zip(&honest) {
            let changes = definitions.iter().zip(kind.changes);
            let changes: Vec<Value> = changes
                .map(|(definition, (pointer, value))| changed(definition.clone(), pointer, value))
                .collect();
            pages.set(kind.member, spelled(&changes));
        }
        // Nobody has told the gateway: what is shown is looked at, all the same.
        for kind in &KINDS {
            assert_eq!(listed(&agent, kind).await, Vec::<String>::new(), "{}", kind.word);
        }
        home.cli(&["server", "refresh", "peer"]).success();
        let (entries, after) = (entries(home), told(home));
        assert_eq!(after.len(), before.len() + all, "one record for each");
        for (kind, definitions) in KINDS.iter().zip(&honest) {
            for (definition, (pointer, value)) in definitions.iter().zip(kind.changes) {
                let (what, id) = (format!("{} {pointer} {value}", kind.word), &definition[kind.id]);
                let of_it = entries
                    .iter()
                    .find(|one| one["name"] == *id && one["kind"] == kind.word);
                let of_it = of_it.unwrap_or_else(|| panic!("no {what}"));
                let stands = (&of_it["standing"], &of_it["cause"]);
                assert_eq!(stands, (&json!("quarantined"), &json!("changed")), "{what}");
                let id = id.as_str().unwrap();
                let record = [
                    format!("{}_changed", kind.word),
                    "system".to_owned(),
                    format!("peer/{id}"),
                ];
                assert!(after.contains(&record), "{what} {after:?}");
            }
            let first = definitions[0][kind.id].as_str().unwrap();
            for (method, params) in uses(kind, first) {
                let answer = agent.request(method, params).await;
                assert!(answer.last()["error"]["code"].is_i64(), "{method} {}", answer.text());
            }
        }
        assert_eq!(asked(&harbour.peer), 0, "nothing that waits reaches the server");
        let approved = home.cli(&["tool", "approve", "--changed", "--json"]).success();
        assert_eq!(approved.lines().count(), all);
        for line in approved.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(!line["diff"]["changes"].as_array().unwrap().is_empty(), "{line}");
        }
        for kind in &KINDS {
            // What nobody sees stays out of every list, approved or not.
            let seen = kind.changes.iter().filter(|(_, value)| !value.contains("u200b"));
            assert_eq!(listed(&agent, kind).await.len(), seen.count(), "{}", kind.word);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_unknown_server_everything_waits_and_each_is_approved_for_itself() {
    // R102
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let peer = Peer::start(speaks, &["work"]).await;
        answering(&peer);
        peer.always("one", Turn::Result(r#"{"messages":[]}"#.to_owned()));
        for uri in ["note:one", "one:1"] {
            peer.always(uri, Turn::Result(r#"{"contents":[]}"#.to_owned()));
        }
        let pages = Pages::before(&peer);
        for kind in KINDS {
            pages.set(kind.member, spelled(&[(kind.full)("one"), (kind.full)("two")]));
        }
        let trust = |setup: Setup| setup.set("servers.peer.trust", "unknown");
        let harbour = Harbour::before(peer, trust).await;
        let home = &harbour.gateway.home;
        eventually("it is discovered", 60, async || entries(home).len() == 7).await;
        home.cli(&["tool", "approve", "peer/work"]).success();
        let (agent, modern) = (harbour.agent("ann").await, harbour.modern("ann"));
        for kind in &KINDS {
            assert_eq!(listed(&agent, kind).await, Vec::<String>::new(), "{}", kind.word);
            let definition = (kind.full)("one");
            for (method, params) in uses(kind, definition[kind.id].as_str().unwrap()) {
                refused(&agent, &modern, method, &params).await;
            }
        }
        refused(&agent, &modern, "resources/read", &json!({"uri": "unlisted:1"})).await;
        assert_eq!(asked(&harbour.peer), 0);
        for kind in &KINDS {
            let (one, two) = ((kind.full)("one"), (kind.full)("two"));
            let id = format!("peer/{}", one[kind.id].as_str().unwrap());
            let stands = entry(home, &id);
            let cause = (&stands["standing"], &stands["cause"]);
            assert_eq!(cause, (&json!("quarantined"), &json!("first_sight")), "{id}");
            let told = home.cli(&["tool", "approve", &id]).success();
            assert!(told.contains("nobody has approved it yet"), "{told}");
            assert_eq!(listed(&agent, kind).await, [one[kind.id].as_str().unwrap()]);
            for (method, params) in uses(kind, one[kind.id].as_str().unwrap()) {
                let answer = agent.request(method, params.clone()).await;
                assert!(
                    answer.last().get("error").is_none(),
                    "{method} {params} {}",
                    answer.text()
                );
            }
            for (method, params) in uses(kind, two[kind.id].as_str().unwrap()) {
                refused(&agent, &modern, method, &params).await;
            }
        }
        let receipts = crate::support::records::list(home, &["--type", "request", "--limit", "1000"]);
        let codes: Vec<&Value> = receipts
            .iter()
            .map(|record| &record["decision"]["reason_codes"][0])
            .collect();
        assert!(
            codes.contains(&&json!("DENY_TOOL_QUARANTINED")),
            "the receipts tell why: {codes:?}"
        );
    }
}

async fn refused(agent: &Agent, modern: &Modern, method: &str, params: &Value) {
    let answer = agent.request(method, params.clone()).await;
    assert!(
        answer.last()["error"]["code"].is_i64(),
        "{method} {params} {}",
        answer.text()
    );
    if method != "resources/subscribe" {
        let answer = modern.request(method, params.clone()).await;
        assert!(
            answer.last()["error"]["code"].is_i64(),
            "{method} {params} {}",
            answer.text()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_subscription_hears_nothing_of_a_resource_that_waits() {
    let peer = Peer::start(Speaks::Modern, &["work"]).await;
    let pages = Pages::before(&peer);
    pages.set("resources", spelled(&[full_resource("one"), full_resource("two")]));
    let trust = |setup: Setup| setup.set("servers.peer.trust", "unknown");
    let harbour = Harbour::before(peer, trust).await;
    let home = &harbour.gateway.home;
    eventually("it is discovered", 60, async || entries(home).len() == 3).await;
    home.cli(&["tool", "approve", "peer/work"]).success();
    home.cli(&["tool", "approve", "peer/note:one"]).success();
    let wanted = json!({"notifications": {"resourceSubscriptions": ["note:one", "note:two", "note:three"]}});
    let mut stream = harbour.modern("ann").follow("subscriptions/listen", wanted).await;
    let taken = stream.until("notifications/subscriptions/acknowledged").await;
    assert_eq!(
        taken["params"]["notifications"]["resourceSubscriptions"],
        json!(["note:one"])
    );
    let heard: Vec<Value> = harbour
        .peer
        .asked("subscriptions/listen")
        .iter()
        .map(|seen| seen.json()["params"]["notifications"]["resourceSubscriptions"].clone())
        .filter(|uris| !uris.is_null())
        .collect();
    assert_eq!(heard, [json!(["note:one"])], "the server is asked for nothing else");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stranger_adds_waits_and_what_the_operator_disables_is_gone() {
    let peer = Peer::start(Speaks::Legacy, &["work"]).await;
    answering(&peer);
    let pages = Pages::before(&peer);
    for kind in KINDS {
        pages.set(kind.member, spelled(&[(kind.full)("one")]));
    }
    let trust = |setup: Setup| setup.set("servers.peer.trust", "community");
    let harbour = Harbour::before(peer, trust).await;
    let (agent, home) = (harbour.agent("ann").await, &harbour.gateway.home);
    for kind in &KINDS {
        let (one, two) = ((kind.full)("one"), (kind.full)("two"));
        let (first, second) = (one[kind.id].as_str().unwrap(), two[kind.id].as_str().unwrap());
        assert_eq!(listed(&agent, kind).await, [first]);
        pages.set(kind.member, spelled(&[one.clone(), two.clone()]));
        assert_eq!(
            listed(&agent, kind).await,
            [first],
            "what is new waits from the first moment"
        );
        let id = format!("peer/{second}");
        eventually("it is noticed without a word of the server", 60, async || {
            entries(home).iter().any(|entry| entry["id"] == id)
        })
        .await;
        assert_eq!(entry(home, &id)["cause"], "new", "{id}");
        home.cli(&["tool", "approve", &id]).success();
        let mut both = [first, second];
        both.sort_unstable();
        assert_eq!(listed(&agent, kind).await, both);
        home.cli(&["tool", "disable", &id]).success();
        assert_eq!(listed(&agent, kind).await, [first]);
        for (method, params) in uses(kind, second) {
            let answer = agent.request(method, params).await;
            assert!(answer.last()["error"]["code"].is_i64(), "{method} {}", answer.text());
        }
        home.cli(&["tool", "enable", &id]).success();
        assert_eq!(listed(&agent, kind).await, both);
    }
    assert_eq!(asked(&harbour.peer), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_that_their_lists_differ_when_an_operator_approves() {
    let peer = Peer::start(Speaks::Modern, &["work"]).await;
    peer.capable("prompts", Some(json!({"listChanged": true})));
    peer.capable("resources", Some(json!({"listChanged": true})));
    let pages = Pages::before(&peer);
    pages.set("prompts", spelled(&[full_prompt("one")]));
    pages.set("resources", spelled(&[full_resource("one")]));
    let harbour = Harbour::before(peer, |setup| setup.set("servers.peer.trust", "community")).await;
    let (modern, home) = (harbour.modern("ann"), &harbour.gateway.home);
    eventually("it is discovered", 60, async || entries(home).len() == 3).await;
    pages.set("prompts", spelled(&[changed(full_prompt("one"), "/title", r#""b""#)]));
    home.cli(&["server", "refresh", "peer"]).success();
    let wanted = json!({"notifications": {"promptsListChanged": true, "resourcesListChanged": true}});
    let mut stream = modern.follow("subscriptions/listen", wanted).await;
    stream.until("notifications/subscriptions/acknowledged").await;
    home.cli(&["tool", "approve", "peer/one"]).success();
    stream.until("notifications/prompts/list_changed").await;
    assert!(
        stream.is_silent_for(Duration::from_millis(300)).await,
        "nothing else differs"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_cannot_be_believed_are_in_no_list_and_on_record() {
    // R214
    let peer = Peer::start(Speaks::Legacy, &["work"]).await;
    let pages = Pages::before(&peer);
    let large = json!({"name": "large", "description": "x".repeat(300 << 10)}).to_string();
    let mut prompts: Vec<String> = (0..PAGE).map(|n| full_prompt(&format!("n{n}")).to_string()).collect();
    // One name on two pages, with two definitions.
    prompts[0] = full_prompt("same").to_string();
    prompts.push(changed(full_prompt("same"), "/title", r#""b""#).to_string());
    prompts.push(large);
    prompts.push(r#"{"title":"nameless"}"#.to_owned());
    pages.set("prompts", prompts);
    let harbour = Harbour::before(peer, |setup| setup).await;
    let (agent, home) = (harbour.agent("ann").await, &harbour.gateway.home);
    let names = listed(&agent, &KINDS[0]).await;
    assert_eq!(names, ["n1", "n2", "n3", "n4", "n5", "n6"]);
    let refused = crate::support::records::list(home, &["--type", "inventory", "--limit", "1000"]);
    let mut reasons: Vec<&str> = refused
        .iter()
        .filter(|record| record["action"] == "definition_refused")
        .map(|record| record["message"].as_str().unwrap())
        .collect();
    reasons.sort_unstable();
    assert_eq!(
        reasons,
        [
            "definition 7 of a prompt was left out: the server defines the name more than once",
            "definition 8 of a prompt was left out: the definition is larger than 256 KiB",
            "definition 9 of a prompt was left out: the name is missing or has characters that a name may not have",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_prompt_is_told_in_words_and_an_id_of_two_kinds_asks_for_the_kind() {
    let issuer = Issuer::start().await;
    let peer = Peer::start(Speaks::Legacy, &["one"]).await;
    peer.list("prompts", &[full_prompt("one")]);
    let gateway = Setup::new().issuer(&issuer).peer("peer", &peer).start().await;
    let agent = Agent::connect(&gateway, "/mcp/peer", &issuer.token("ann")).await;
    assert_eq!(listed(&agent, &KINDS[0]).await, ["one"]);
    let worse = changed(full_prompt("one"), "/description", r#""Tells all.\u202e""#);
    let worse = changed(
        worse,
        "/arguments",
        r#"[{"name": "topic"}, {"name": "key", "required": true}]"#,
    );
    peer.list("prompts", &[worse]);
    let home = &gateway.home;
    home.cli(&["server", "refresh", "peer"]).success();
    let ambiguous = home.cli(&["tool", "diff", "peer/one"]);
    assert_eq!(ambiguous.code, Some(1));
    assert!(ambiguous.stderr.contains("kind"), "{ambiguous:?}");
    let told = home
        .cli(&["tool", "diff", "peer/one", "--kind", "prompt", "--json"])
        .success();
    let told: Value = serde_json::from_str(&told).unwrap();
    let changes: Vec<[&str; 2]> = told["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| [one["path"].as_str().unwrap(), one["kind"].as_str().unwrap()])
        .collect();
    assert!(changes.contains(&["/description", "reworded"]), "{changes:?}");
    assert!(
        changes
            .iter()
            .any(|[path, kind]| path.starts_with("/arguments/") && *kind == "added"),
        "{changes:?}"
    );
    let text = home.cli(&["tool", "diff", "peer/one", "--kind", "prompt"]).success();
    assert!(text.contains("U+202E") && !text.contains('\u{202e}'), "{text}");
    home.cli(&["tool", "approve", "peer/one", "--kind", "prompt"]).success();
    let stands = entries(home).into_iter().find(|one| one["kind"] == "prompt").unwrap();
    assert_eq!(stands["standing"], "approved");
    assert_eq!(
        listed(&agent, &KINDS[0]).await,
        Vec::<String>::new(),
        "what nobody sees is shown to nobody"
    );
}
