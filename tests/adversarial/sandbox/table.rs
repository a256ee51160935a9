//! The attack table: every attempt of every row, first without a sandbox, then inside, and the canaries decide.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::attempts::{Attempt, of_rows};
use super::scene::{Bare, Scene, Watchman, order, report_of};
use super::stage::{Stage, on_stage};
use crate::support::{Agent, Gateway, Setup};

/// What came of the attempts of one row.
#[derive(Default)]
struct Tally {
    attempts: usize,
    bare: usize,
    faults: Vec<String>,
}

/// Makes every attempt of these rows.
async fn rows(stage: Stage, rows: &[&str]) {
    let scene = Scene::set(stage).await;
    let gateway = scene.gateway(allowing).await;
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut run = Run {
        agent: scene.agent(&gateway, "hostile", "mallory").await,
        watchman: Watchman::default(),
        bare: scene.bare(),
        given: scene.given(&gateway),
        scene,
        gateway,
    };
    for attempt in of_rows(rows) {
        let tally = tallies.entry(attempt.row.clone()).or_default();
        tally.attempts += 1;
        tally.bare += usize::from(attempt.works_bare() && run.gets_through_bare(&attempt));
    }
    // On a busy machine those outside notice late who came without a sandbox.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    run.scene.sides.forget();
    for attempt in of_rows(rows) {
        let faults = run.inside(&attempt).await;
        tallies.get_mut(&attempt.row).unwrap().faults.extend(faults);
    }
    run.settle(&tallies).await;
}

/// The allowlist of the table: what the far sides stand for, and names that lead where nobody may go.
pub(super) fn allowing(setup: Setup) -> Setup {
    let named = [
        "good", "*.wild", "loopback", "metadata", "private", "mapped", "nat64", "mixed", "rebind",
    ];
    let allow: Vec<String> = named
        .iter()
        .flat_map(|name| [443, 80].map(|port| format!("{name}.test:{port}")))
        .collect();
    setup
        .set("servers.hostile.sandbox.net", "allowlist")
        .set("servers.hostile.sandbox.allow", allow)
}

struct Run {
    scene: Scene,
    gateway: Gateway,
    agent: Agent,
    bare: Bare,
    given: Map<String, Value>,
    watchman: Watchman,
}

impl Run {
    /// Whether an attempt works without a sandbox.
    fn gets_through_bare(&mut self, attempt: &Attempt) -> bool {
        if attempt.attempt == "kill_everybody" {
            return self.scene.kills_everybody_bare();
        }
        let report = self.bare.attempt(attempt, &self.given);
        if !report.through {
            eprintln!("{}: not even without a sandbox: {report:?}", attempt.name());
        }
        self.scene.canaries.put_back();
        if attempt.row.starts_with('P') {
            self.scene.canaries.revive();
            self.given.extend(self.scene.canaries.given());
        }
        self.scene.sides.forget();
        report.through
    }

    /// What is wrong with what came of an attempt inside.
    async fn inside(&mut self, attempt: &Attempt) -> Vec<String> {
        let before = self.scene.sides.touches();
        assert!(
            before.is_empty(),
            "before {}, canaries were touched: {before:?}",
            attempt.name()
        );
        self.scene.sides.forget();
        self.watchman.look(&self.gateway);
        let known = self.watchman.records.len();
        // Another name each time: repeats are folded, and a folded record comes later.
        self.given
            .insert("denied".to_owned(), format!("d{known}.denied.test").into());
        let answer = self.agent.call("attempt", order(attempt, &self.given)).await;
        let report = report_of(&answer);
        let mut faults = Vec::from_iter(attempt.fault(&report));
        if answer.text().contains(&self.scene.canary) {
            faults.push(format!("{}: the canary is in the answer: {report:?}", attempt.name()));
        }
        faults.extend(self.outside(attempt));
        if let Some(expected) = &attempt.egress {
            let found = self
                .watchman
                .expect(&self.gateway, known, |record| expected.is(record))
                .await;
            if found.is_none() {
                let fresh: Vec<String> = self.watchman.records.iter().skip(known).map(in_short).collect();
                faults.push(format!(
                    "{}: no record {expected:?} but {fresh:?}; {report:?}",
                    attempt.name()
                ));
            }
        }
        faults
    }

    /// What is wrong with those outside.
    fn outside(&self, attempt: &Attempt) -> Option<String> {
        self.scene.canaries.must_be_untouched(&attempt.name());
        let (touches, arrivals, asked) = (
            self.scene.sides.touches(),
            self.scene.sides.arrivals(),
            self.scene.sides.asked(),
        );
        let is_denied = |name: &String| !name.ends_with(".wild.test") && !RESOLVED.contains(&name.as_str());
        let nothing_arrives = attempt.row == "E7" || attempt.row.starts_with('N');
        let unseen = match () {
            () if !touches.is_empty() => format!("canaries were touched: {touches:?}"),
            () if asked.iter().any(is_denied) => format!("a denied name was looked up: {asked:?}"),
            () if arrivals.iter().any(|one| one.contains("evil")) => format!("arrived: {arrivals:?}"),
            () if nothing_arrives && !arrivals.is_empty() => format!("arrived: {arrivals:?}"),
            () => return None,
        };
        Some(format!("{}: {unseen}", attempt.name()))
    }

    /// Says what came of all rows, and fails if anything was not as it must be.
    async fn settle(self, tallies: &BTreeMap<String, Tally>) {
        let mut faults: Vec<String> = Vec::new();
        for (row, tally) in tallies {
            let expected = of_rows(&[row]).iter().filter(|one| one.works_bare()).count();
            eprintln!(
                "{row}: {} attempts, {} of {expected} get through without a sandbox, {} faults inside",
                tally.attempts,
                tally.bare,
                tally.faults.len()
            );
            if expected > 0 && tally.bare == 0 && !self.scene.canaries.lacks_a_program_of_root(row) {
                faults.push(format!(
                    "{row}: nothing gets through without a sandbox: the row proves nothing"
                ));
            }
            faults.extend(tally.faults.iter().cloned());
        }
        drop(self.bare);
        self.gateway.stop().await;
        assert_eq!(leftovers(&self.scene), Vec::<String>::new(), "processes are left");
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    }
}

/// The names that the host's resolver may be asked for: those on the list.
const RESOLVED: [&str; 8] = [
    "good.test",
    "loopback.test",
    "metadata.test",
    "private.test",
    "mapped.test",
    "nat64.test",
    "mixed.test",
    "rebind.test",
];

/// Processes of the attacker.
pub(super) fn leftovers(scene: &Scene) -> Vec<String> {
    super::nuisances::processes_with(&scene.script())
}

fn in_short(record: &Value) -> String {
    let part = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
    format!("{} {} {}", part("event"), part("reason"), record["dst"])
}

on_stage! {
    // R146, R148, F1, F2, F3, F4, F5
    fn files_outside_cannot_be_read_or_changed_by_a_server_of_root, Root, |stage| rows(stage, &FILES);
    // R146, R148, F1, F2, F3, F4, F5
    fn files_outside_cannot_be_read_or_changed_by_an_ordinary_server, Ordinary, |stage| rows(stage, &FILES);
    // R148, P1, P2, P3, P4, P5, P6
    fn other_processes_are_out_of_reach_of_a_server_of_root, Root, |stage| rows(stage, &PROCESSES);
    // R148, P1, P2, P3, P4, P5, P6
    fn other_processes_are_out_of_reach_of_an_ordinary_server, Ordinary, |stage| rows(stage, &PROCESSES);
    // R147, N1, N2, N3, N4, N5
    fn no_packet_leaves_the_sandbox_of_a_server_of_root, Root, |stage| rows(stage, &PACKETS);
    // R147, N1, N2, N3, N4, N5
    fn no_packet_leaves_the_sandbox_of_an_ordinary_server, Ordinary, |stage| rows(stage, &PACKETS);
    // R147, S1, S2, S3, S4
    fn no_socket_leads_a_server_of_root_around_its_network, Root, |stage| rows(stage, &SOCKETS);
    // R147, S1, S2, S3, S4
    fn no_socket_leads_an_ordinary_server_around_its_network, Ordinary, |stage| rows(stage, &SOCKETS);
    // R146, R149, K1, K2, K3, K4, K5, K6, K7, D1, D2, U1
    fn the_kernel_gives_a_server_of_root_no_new_rights, Root, |stage| rows(stage, &KERNEL);
    // R146, R149, K1, K2, K3, K4, K5, K6, K7, D1, D2, U1
    fn the_kernel_gives_an_ordinary_server_no_new_rights, Ordinary, |stage| rows(stage, &KERNEL);
    // R147, R151, E1, E4, E5
    fn the_proxy_of_a_server_of_root_is_not_fooled_about_names, Root, |stage| rows(stage, &NAMES);
    // R147, R151, E1, E4, E5
    fn the_proxy_of_an_ordinary_server_is_not_fooled_about_names, Ordinary, |stage| rows(stage, &NAMES);
    // E2, E3
    fn the_proxy_of_a_server_of_root_is_not_fooled_about_addresses, Root, |stage| rows(stage, &ADDRESSES);
    // E2, E3
    fn the_proxy_of_an_ordinary_server_is_not_fooled_about_addresses, Ordinary, |stage| rows(stage, &ADDRESSES);
    // E6, E7
    fn the_proxy_of_a_server_of_root_is_not_fooled_about_bytes, Root, |stage| rows(stage, &BYTES);
    // E6, E7
    fn the_proxy_of_an_ordinary_server_is_not_fooled_about_bytes, Ordinary, |stage| rows(stage, &BYTES);
    // E8, E9, E10
    fn the_proxy_of_a_server_of_root_is_not_fooled_about_requests, Root, |stage| rows(stage, &REQUESTS);
    // E8, E9, E10
    fn the_proxy_of_an_ordinary_server_is_not_fooled_about_requests, Ordinary, |stage| rows(stage, &REQUESTS);
    // E11
    fn the_proxy_of_a_server_of_root_is_not_drowned, Root, |stage| rows(stage, &["E11"]);
    // E11
    fn the_proxy_of_an_ordinary_server_is_not_drowned, Ordinary, |stage| rows(stage, &["E11"]);
    // X1
    fn the_doors_cannot_be_taken_over_by_a_server_of_root, Root, |stage| rows(stage, &["X1"]);
    // X1
    fn the_doors_cannot_be_taken_over_by_an_ordinary_server, Ordinary, |stage| rows(stage, &["X1"]);
}

const FILES: [&str; 5] = ["F1", "F2", "F3", "F4", "F5"];
const PROCESSES: [&str; 6] = ["P1", "P2", "P3", "P4", "P5", "P6"];
const PACKETS: [&str; 5] = ["N1", "N2", "N3", "N4", "N5"];
const SOCKETS: [&str; 4] = ["S1", "S2", "S3", "S4"];
const NAMES: [&str; 3] = ["E1", "E4", "E5"];
const ADDRESSES: [&str; 2] = ["E2", "E3"];
const BYTES: [&str; 2] = ["E6", "E7"];
const REQUESTS: [&str; 3] = ["E8", "E9", "E10"];
const KERNEL: [&str; 10] = ["K1", "K2", "K3", "K4", "K5", "K6", "K7", "D1", "D2", "U1"];
