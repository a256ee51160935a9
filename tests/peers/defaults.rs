//! A gateway as it comes, before servers as they are published: nothing they say is withheld or changed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::are_installed;
use super::stdio::{Case, repository_in};
use crate::support::records::list;
use crate::support::{Agent, Issuer, Modern, Setup, eventually};

/// Every tool of a server, in an order in which each has something to do.
type Calls = Vec<(&'static str, Value)>;

fn everything() -> Calls {
    vec![
        ("echo", json!({"message": "ahoy"})),
        (
            "get-annotated-message",
            json!({"messageType": "error", "includeImage": true}),
        ),
        ("get-env", json!({})),
        ("get-resource-links", json!({"count": 3})),
        (
            "get-resource-reference",
            json!({"resourceType": "Text", "resourceId": 1}),
        ),
        ("get-structured-content", json!({"location": "Chicago"})),
        ("get-sum", json!({"a": 1.5, "b": -2})),
        ("get-tiny-image", json!({})),
        (
            "gzip-file-as-resource",
            json!({"name": "a.gz", "data": "data:text/plain,tide", "outputType": "resource"}),
        ),
        ("toggle-simulated-logging", json!({})),
        ("toggle-subscriber-updates", json!({})),
        ("trigger-long-running-operation", json!({"duration": 0.2, "steps": 2})),
        ("simulate-research-query", json!({"topic": "tides", "ambiguous": false})),
    ]
}

fn filesystem() -> Calls {
    let edit = json!([{"oldText": "high", "newText": "low"}]);
    vec![
        ("list_allowed_directories", json!({})),
        ("create_directory", json!({"path": "quay"})),
        (
            "write_file",
            json!({"path": "quay/note.txt", "content": "high \u{ab}water\u{bb} & \u{200d}\n"}),
        ),
        ("read_file", json!({"path": "quay/note.txt"})),
        ("read_text_file", json!({"path": "quay/note.txt", "head": 1})),
        ("read_media_file", json!({"path": "quay/note.txt"})),
        (
            "read_multiple_files",
            json!({"paths": ["quay/note.txt", "quay/none.txt"]}),
        ),
        ("edit_file", json!({"path": "quay/note.txt", "edits": edit})),
        ("list_directory", json!({"path": "."})),
        ("list_directory_with_sizes", json!({"path": "quay"})),
        ("directory_tree", json!({"path": "."})),
        ("search_files", json!({"path": ".", "pattern": "**/*.txt"})),
        ("get_file_info", json!({"path": "quay/note.txt"})),
        (
            "move_file",
            json!({"source": "quay/note.txt", "destination": "quay/old.txt"}),
        ),
    ]
}

fn memory() -> Calls {
    let relation = json!([{"from": "quay", "to": "ship", "relationType": "holds"}]);
    let entity = |name: &str| json!({"name": name, "entityType": "place", "observations": ["old"]});
    vec![
        ("create_entities", json!({"entities": [entity("quay"), entity("ship")]})),
        ("create_relations", json!({"relations": relation})),
        (
            "add_observations",
            json!({"observations": [{"entityName": "quay", "contents": ["wet"]}]}),
        ),
        ("read_graph", json!({})),
        ("search_nodes", json!({"query": "quay"})),
        ("open_nodes", json!({"names": ["ship"]})),
        (
            "delete_observations",
            json!({"deletions": [{"entityName": "quay", "observations": ["wet"]}]}),
        ),
        ("delete_relations", json!({"relations": relation})),
        ("delete_entities", json!({"entityNames": ["ship"]})),
    ]
}

fn git() -> Calls {
    let at = |mut arguments: Value| {
        arguments["repo_path"] = json!(".");
        arguments
    };
    vec![
        ("git_status", at(json!({}))),
        ("git_add", at(json!({"files": ["cargo.txt"]}))),
        ("git_diff_unstaged", at(json!({}))),
        ("git_diff_staged", at(json!({}))),
        ("git_commit", at(json!({"message": "tea"}))),
        ("git_log", at(json!({"max_count": 3}))),
        ("git_create_branch", at(json!({"branch_name": "ebb"}))),
        ("git_checkout", at(json!({"branch_name": "ebb"}))),
        ("git_diff", at(json!({"target": "HEAD"}))),
        ("git_show", at(json!({"revision": "HEAD"}))),
        ("git_branch", at(json!({"branch_type": "local"}))),
        ("git_reset", at(json!({}))),
    ]
}

fn rest() -> [(&'static str, Case<'static>, Calls); 2] {
    let thought = json!({"thought": "tide", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    let noon = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    [
        (
            "thinking",
            Case::node("server-sequential-thinking/dist/index.js", &[]),
            vec![("sequentialthinking", thought)],
        ),
        (
            "time",
            Case::python("mcp-server-time", &["--local-timezone=UTC"]),
            vec![
                ("get_current_time", json!({"timezone": "Asia/Tokyo"})),
                ("convert_time", noon),
            ],
        ),
    ]
}

fn reference_servers() -> Vec<(&'static str, Case<'static>, Calls)> {
    let memory_file = json!({"MEMORY_FILE_PATH": "text:/tmp/memory.json"});
    let mut all = vec![
        (
            "everything",
            Case::node("server-everything/dist/index.js", &["stdio"]),
            everything(),
        ),
        (
            "filesystem",
            Case::node("server-filesystem/dist/index.js", &["."]),
            filesystem(),
        ),
        (
            "memory",
            Case::node("server-memory/dist/index.js", &[]).env(memory_file),
            memory(),
        ),
        ("peer", Case::python("mcp-server-git", &[]), git()),
    ];
    all.extend(rest());
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_no_result_of_a_reference_server_is_withheld_or_touched() {
    // R004
    let servers = reference_servers();
    let programs: Vec<_> = servers.iter().map(|(_, case, _)| case.script()).collect();
    if !are_installed(&programs.iter().map(AsRef::as_ref).collect::<Vec<_>>()) {
        return;
    }
    let issuer = Issuer::start().await;
    // Nothing is said of validating and sanitising, and nobody is trusted more than a stranger's package.
    let setup = servers
        .iter()
        .fold(Setup::new().issuer(&issuer), |setup, (id, case, _)| {
            setup.set(&format!("servers.{id}"), case.entry("community"))
        });
    let home = setup.unset("output_validation").unset("output_sanitisation").home();
    repository_in(&home);
    let gateway = home.serve().await;
    let token = issuer.token("ann");
    let (mut results, mut errors) = (0, Vec::new());
    for (id, _, calls) in servers {
        let route = format!("/mcp/{id}");
        let agent = Agent::connect(&gateway, &route, &token).await;
        let names = calls
            .iter()
            .map(|(tool, _)| (*tool).to_owned())
            .collect::<BTreeSet<_>>();
        eventually("the server was discovered", 90, async || {
            !agent.names().await.is_empty()
        })
        .await;
        let listed = agent.names().await.into_iter().collect::<BTreeSet<_>>();
        assert_eq!(listed, names, "{id}: every tool is called");
        let modern = Modern::new(&gateway, &route, &token);
        for (tool, arguments) in calls {
            for answer in [
                agent.call(tool, arguments.clone()).await,
                modern.call(tool, arguments).await,
            ] {
                let result = answer.result();
                let ours = result["_meta"].as_object().into_iter().flat_map(|meta| meta.keys());
                let ours: Vec<_> = ours.filter(|name| name.starts_with("portreeve/")).collect();
                assert_eq!(ours, Vec::<&String>::new(), "{id}/{tool}: {}", answer.text());
                results += 1;
                if result["isError"] == true {
                    errors.push(format!("{id}/{tool}: {}", answer.text()));
                }
            }
        }
    }
    assert!(results >= 100, "{results}");
    // A server may well refuse to do the same thing twice.
    assert!(errors.len() <= results / 20, "{errors:#?}");
    let records = list(&gateway.home, &["--type", "policy_decision", "--limit", "1000"]);
    assert_eq!(
        records,
        Vec::<Value>::new(),
        "nothing was decided about any of {results} results"
    );
    println!("{results} results, {} of them a server's own error", errors.len());
}
