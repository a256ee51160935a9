//! Every way a server's bytes can take has a test: a route, a method, a notification or a question that is added
//! without one fails here.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mcp::{Method, ServerNotice};

use crate::architecture::sources::collect;
use crate::support::environment::repository;

/// How it is shown that what a server answers to a method is contained.
enum Shown {
    /// By this test of this file.
    By(&'static str, &'static str),
    /// The gateway answers it alone: nothing of a server's is in the answer.
    AnsweredHere,
}

/// A method more, and this does not compile.
fn shown(method: &Method) -> Shown {
    use Shown::{AnsweredHere, By};
    match method {
        Method::Initialize | Method::Discover | Method::Ping | Method::SetLevel => AnsweredHere,
        Method::ToolsCall => By(
            "results",
            "what_a_tool_says_is_contained_on_every_route_in_every_era_by_either_transport",
        ),
        // Tools are judged when they are discovered; a definition that hides something is not listed at all.
        Method::ToolsList => AnsweredHere,
        Method::ResourcesList | Method::TemplatesList | Method::PromptsList => By(
            "lists",
            "an_entry_that_hides_something_is_left_out_and_its_twin_is_shown",
        ),
        Method::ResourcesRead => By("errands", "the_contents_of_a_resource_are_contained"),
        Method::PromptsGet => By("errands", "the_messages_of_a_prompt_are_contained"),
        Method::Complete | Method::Subscribe | Method::Unsubscribe | Method::Other(_) => {
            By("errands", "completions_and_methods_let_through_by_name_are_contained")
        }
        Method::Listen => By("asides", "what_is_said_on_a_stream_of_its_own_is_contained"),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => By(
            "tasks",
            "a_task_without_a_session_is_contained_in_every_answer_about_it",
        ),
        Method::TasksResult | Method::TasksList => {
            By("tasks", "a_task_of_a_session_is_contained_in_every_answer_about_it")
        }
    }
}

fn test_file(name: &str) -> String {
    std::fs::read_to_string(repository().join(format!("tests/chokepoint/{name}.rs"))).unwrap()
}

#[test]
fn every_method_whose_answer_a_server_writes_has_a_test() {
    // R033, R071
    let other = Method::parse("vendor/thing");
    for method in Method::KNOWN.iter().chain([&other]) {
        let name = method.as_str();
        match shown(method) {
            Shown::By(file, test) => {
                let text = test_file(file);
                assert!(text.contains(&format!("async fn {test}(")), "{name}: no {test}");
                let asked = text.contains(name) || *method == Method::ToolsCall;
                assert!(asked, "{name} is asked for nowhere in {file}.rs");
            }
            Shown::AnsweredHere => {
                assert!(!method.is_carried(), "{name} goes to a server");
            }
        }
    }
}

/// Each string literal of the gateway that begins so.
fn named(prefixes: &[&str], rooms: &[&str]) -> BTreeSet<String> {
    let mut sources = Vec::new();
    for room in rooms {
        collect(&repository().join(room), &mut sources);
    }
    let mut found = BTreeSet::new();
    for (_, text) in &sources {
        for literal in text.split('"') {
            let plain = literal
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_'));
            if plain && prefixes.iter().any(|prefix| literal.starts_with(prefix)) {
                found.insert(literal.to_owned());
            }
        }
    }
    found
}

/// The file that shows how a notification is contained; a notification more, and this does not compile.
fn told_in(notice: ServerNotice) -> Option<&'static str> {
    match notice {
        ServerNotice::Progress
        | ServerNotice::Message
        | ServerNotice::ElicitationComplete
        | ServerNotice::ResourceUpdated
        | ServerNotice::ToolsChanged
        | ServerNotice::PromptsChanged
        | ServerNotice::ResourcesChanged => Some("asides"),
        ServerNotice::Task | ServerNotice::TaskStatus => Some("tasks"),
        // A server's own: nothing of it reaches a client.
        ServerNotice::Cancelled | ServerNotice::SubscriptionAcknowledged => None,
    }
}

#[test]
fn every_notification_that_can_pass_has_a_test() {
    // R071
    for notice in ServerNotice::ALL {
        if let Some(file) = told_in(notice) {
            assert!(
                test_file(file).contains(&format!("\"{notice}\"")),
                "{notice} is told nowhere in {file}.rs"
            );
        }
    }
    // By their names alone: a notification that the protocol's list does not know cannot be passed on.
    let spelled = named(&["notifications/"], &["crates/gateway/src"]);
    assert_eq!(spelled, BTreeSet::new(), "a notification by a string");
}

#[test]
fn every_question_that_can_be_put_has_a_test() {
    // R071
    let rooms = ["crates/mcp/src/capabilities.rs", "crates/mcp/src", "crates/gateway/src"];
    let known = named(&["sampling/", "elicitation/", "roots/"], &rooms);
    let asked = test_file("questions");
    for method in &known {
        assert!(asked.contains(&format!("\"{method}\"")), "{method} is asked nowhere");
    }
    assert_eq!(known.len(), 3, "{known:?}");
}

#[test]
fn only_the_chokepoint_makes_what_a_client_may_see_and_what_is_our_own_is_made_in_known_places() {
    // R059
    let mut sources = Vec::new();
    collect(&repository().join("crates"), &mut sources);
    let places = |word: &str| -> BTreeSet<String> {
        let holds = |text: &str| {
            text.lines()
                .any(|line| line.contains(word) && !line.trim_start().starts_with("//"))
        };
        let file = |path: &PathBuf| path.strip_prefix(repository()).unwrap().to_string_lossy().into_owned();
        sources
            .iter()
            .filter(|(_, text)| holds(text))
            .map(|(path, _)| file(path))
            .collect()
    };
    let of = |files: &[&str]| {
        files
            .iter()
            .map(|file| format!("crates/{file}.rs"))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(places("ScreenedResult::new("), of(&["screening/src/result/pipeline"]));
    assert_eq!(places("Screening::new("), of(&["screening/src/result/pipeline"]));
    // What is put together here is of typed values alone; there is no constructor that takes bytes.
    let own = ["era/initialize", "list", "message/own", "stream/listen"].map(|file| format!("gateway/src/{file}"));
    assert_eq!(places("OwnResult::object("), of(&own.each_ref().map(String::as_str)));
    assert_eq!(
        places("OwnResult::input_required("),
        of(&["gateway/src/call/rounds/park"])
    );
    assert_eq!(places("compose::result("), of(&["gateway/src/message/client"]));
}

#[test]
fn validation_is_the_same_in_every_build_and_knows_nothing_of_rules_or_logs() {
    // R044, R062, R064
    for room in ["schema", "screening"] {
        let manifest = std::fs::read_to_string(repository().join(format!("crates/{room}/Cargo.toml"))).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        assert!(manifest.get("features").is_none(), "{room} has builds that differ");
        let dependencies = manifest["dependencies"].as_table().unwrap();
        for stranger in ["policy", "store", "gateway", "upstream", "control", "tracing"] {
            assert!(dependencies.get(stranger).is_none(), "{room} knows {stranger}");
        }
        assert!(
            dependencies.get("ledger").is_none() || room == "screening",
            "{room} knows ledger"
        );
        let mut sources = Vec::new();
        collect(&repository().join(format!("crates/{room}/src")), &mut sources);
        for (path, text) in sources {
            let conditions = text
                .lines()
                .filter(|line| line.contains("cfg(") || line.contains("cfg!("));
            let others: Vec<_> = conditions.filter(|line| line.trim() != "#[cfg(test)]").collect();
            assert_eq!(others, Vec::<&str>::new(), "{}", path.display());
            assert_eq!(
                reaches_for_the_log(&path.to_string_lossy(), &text),
                None,
                "{}",
                path.display()
            );
        }
    }
}

/// Screening takes the ledger's proof and the words of its records (ADR 0053). No step that judges knows even these, and
/// nothing of it knows the log itself: the chain, its reader, what writes it.
fn reaches_for_the_log(path: &str, text: &str) -> Option<&'static str> {
    if path.contains("/tests") {
        return None;
    }
    let judges = ["/result/validate", "/detect", "/arguments", "/schema/src"];
    let log = ["Ledger", "ledger::verify", "stored_origin"];
    let judges_by_it = judges.iter().any(|step| path.contains(step)) && text.contains("ledger::");
    let names_it = || log.into_iter().find(|name| text.contains(name));
    judges_by_it.then_some("ledger::").or_else(names_it)
}

#[test]
fn a_step_that_knows_the_ledger_and_a_file_that_knows_the_log_are_found() {
    // R064
    let proof = "use ledger::{Judgement, Recorded};";
    assert_eq!(
        reaches_for_the_log("crates/screening/src/result/decision.rs", proof),
        None
    );
    let step = reaches_for_the_log("crates/screening/src/result/validate/locate.rs", proof);
    assert_eq!(step, Some("ledger::"));
    let writer = "fn keep(log: &ledger::Ledger) {}";
    assert_eq!(
        reaches_for_the_log("crates/screening/src/result/decision.rs", writer),
        Some("Ledger")
    );
}
