use std::collections::BTreeSet;

use super::*;
use crate::tests::{agent, server};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn incident(id: &str, stage: IncidentStage, scope: &str) -> Incident {
    Incident {
        id: id.to_owned(),
        stage,
        scope: IncidentScope::parse(scope).expect("a scope"),
        reason: "a \"drill\"\u{7f}".to_owned(),
        started_by: "zoe".to_owned(),
        started: at(1),
        expires: None,
        end_wanted_by: None,
    }
}

fn says(incidents: &Incidents, risk: Risk) -> &'static str {
    let who = agent("ann");
    let (files, wipe) = (
        server("files"),
        IncidentScope::parse("tool:files/wipe").expect("a scope"),
    );
    let IncidentScope::Tool(tool) = &wipe else {
        panic!("a tool")
    };
    let subject = Subject {
        who: &who,
        server: Some(&files),
        tool: Some(tool),
        risk,
    };
    match incidents.standing(&subject) {
        IncidentStanding::Clear => "policy",
        IncidentStanding::NeedsPerson(_) => "approval",
        IncidentStanding::Denied(_) => "deny",
    }
}

// R209
#[test]
fn each_stage_takes_away_what_the_table_says() {
    let table = [
        (IncidentStage::Normal, ["policy", "policy", "policy", "policy"]),
        (IncidentStage::Heightened, ["policy", "policy", "approval", "approval"]),
        (IncidentStage::Contain, ["policy", "deny", "deny", "deny"]),
        (IncidentStage::Lockdown, ["deny", "deny", "deny", "deny"]),
    ];
    for (stage, row) in table {
        let incidents = Incidents::default().with(incident("inc_1", stage, "all"));
        let told = [Risk::Low, Risk::Medium, Risk::High, Risk::Critical].map(|risk| says(&incidents, risk));
        assert_eq!(told, row, "{stage}");
    }
}

#[test]
fn a_scope_covers_what_it_names_and_nothing_else() {
    for (scope, covered) in [
        ("all", true),
        ("server:files", true),
        ("server:mail", false),
        ("tool:files/wipe", true),
        ("tool:files/read", false),
        ("tool:mail/wipe", false),
        ("principal:ann", true),
        ("principal:bob", false),
        ("client:ide", false),
        ("risk:medium", true),
        ("risk:high", true),
        ("risk:critical", false),
    ] {
        let incidents = Incidents::default().with(incident("inc_1", IncidentStage::Lockdown, scope));
        assert_eq!(says(&incidents, Risk::High) == "deny", covered, "{scope}");
    }
    for wrong in [
        "",
        "ALL",
        "all:",
        "server:",
        "server:a b",
        "tool:files",
        "tool:files/",
        "tool:/x",
        "principal:",
        "principal:a\nb",
        "client:",
        "risk:",
        "risk:huge",
        "moon:full",
    ] {
        assert_eq!(IncidentScope::parse(wrong), Err(NoSuchScope), "{wrong:?}");
    }
}

#[test]
fn of_contradictory_incidents_the_strictest_counts() {
    let stages = [
        IncidentStage::Heightened,
        IncidentStage::Lockdown,
        IncidentStage::Contain,
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let incidents = order.iter().fold(Incidents::default(), |all, place: &usize| {
            all.with(incident(&format!("inc_{place}"), stages[*place], "all"))
        });
        assert_eq!(says(&incidents, Risk::Low), "deny");
        assert_eq!(incidents.worst().map(|worst| worst.id.as_str()), Some("inc_1"));
        let milder = incidents.without("inc_1");
        assert_eq!(
            (says(&milder, Risk::Low), says(&milder, Risk::High)),
            ("policy", "deny")
        );
        assert_eq!(milder.version, incidents.version + 1);
    }
}

#[test]
fn an_incident_is_over_at_its_time() {
    let mut short = incident("inc_1", IncidentStage::Lockdown, "all");
    short.expires = Some(at(2));
    assert!(short.is_active(at(1)) && !short.is_active(at(2)));
    short.expires = None;
    assert!(short.is_active(at(i64::from(u32::MAX))));
}

#[test]
fn two_people_end_what_one_does_not() {
    let incidents = Incidents::default().with(incident("inc_1", IncidentStage::Contain, "all"));
    let (half, told) = incidents.ended("inc_1", "ann", EndBy::TwoPeople).expect("half");
    assert!(matches!(told, IncidentEnd::Half(_)));
    assert_eq!(says(&half, Risk::High), "deny");
    assert_eq!(
        half.ended("inc_1", "Ann", EndBy::TwoPeople),
        Err(IncidentEndFault::SamePerson)
    );
    let (over, told) = half.ended("inc_1", "bob", EndBy::TwoPeople).expect("over");
    assert!(matches!(told, IncidentEnd::Over(_)));
    assert_eq!(says(&over, Risk::High), "policy");
    assert_eq!(
        over.ended("inc_1", "bob", EndBy::TwoPeople),
        Err(IncidentEndFault::Unknown)
    );
    let (over, _) = incidents.ended("inc_1", "ann", EndBy::OnePerson).expect("over");
    assert_eq!(over.all, []);
}

#[test]
fn what_is_kept_comes_back_whole_and_anything_else_is_nothing() {
    let mut one = incident("inc_1", IncidentStage::Contain, "principal:a \"b\"");
    one.expires = Some(at(9));
    one.end_wanted_by = Some("zoe".to_owned());
    let incidents = Incidents::default()
        .with(one)
        .with(incident("inc_2", IncidentStage::Lockdown, "risk:high"));
    let document = incidents.to_document();
    assert_eq!(Incidents::from_document(&document), Some(incidents));
    for broken in [
        "",
        "{}",
        r#"{"version":1}"#,
        &document.replace("lockdown", "party"),
        &document.replace("risk:high", "risk:no"),
    ] {
        assert_eq!(Incidents::from_document(broken), None, "{broken}");
    }
}

/// Every state of two incidents that two people start and end in any order: nothing is allowed that an incident in force denies,
/// the version only grows, and one person alone ends none.
#[test]
fn every_order_of_starts_and_ends_keeps_the_promises() {
    let mut seen = BTreeSet::new();
    let mut open = vec![Incidents::default()];
    while let Some(state) = open.pop() {
        let shape: Vec<(String, Option<String>)> = state
            .all
            .iter()
            .map(|one| (one.id.clone(), one.end_wanted_by.clone()))
            .collect();
        if !seen.insert(shape) {
            continue;
        }
        let strictest = state.all.iter().map(|one| one.stage).max();
        let expected = match strictest {
            None | Some(IncidentStage::Normal) => "policy",
            Some(IncidentStage::Heightened) => "approval",
            Some(IncidentStage::Contain | IncidentStage::Lockdown) => "deny",
        };
        assert_eq!(says(&state, Risk::Critical), expected);
        for (id, stage) in [("inc_1", IncidentStage::Heightened), ("inc_2", IncidentStage::Contain)] {
            if state.all.iter().all(|one| one.id != id) {
                open.push(state.with(incident(id, stage, "all")));
            }
            for by in ["ann", "bob"] {
                let wanted = state
                    .all
                    .iter()
                    .find(|one| one.id == id)
                    .map(|one| one.end_wanted_by.clone());
                match (wanted, state.ended(id, by, EndBy::TwoPeople)) {
                    (None, ended) => assert_eq!(ended, Err(IncidentEndFault::Unknown)),
                    (Some(Some(first)), ended) if first == by => assert_eq!(ended, Err(IncidentEndFault::SamePerson)),
                    (Some(first), Ok((next, told))) => {
                        assert_eq!(matches!(told, IncidentEnd::Over(_)), first.is_some());
                        assert!(next.version > state.version);
                        open.push(next);
                    }
                    (Some(_), Err(fault)) => panic!("{fault}"),
                }
            }
        }
    }
    assert_eq!(
        seen.len(),
        25,
        "ordered shapes of none, one and both, each wanted by nobody, ann or bob"
    );
}
