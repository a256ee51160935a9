//! The profile's tests 7 and 8 with a real child, and what receipts say about the walls around it.

use serde_json::{Value, json};

use super::attempts::{Attempt, of_rows};
use super::nuisances::processes_with;
use super::scene::{Scene, order, report_of};
use super::stage::{Stage, on_stage};
use crate::support::records::{all, list};
use crate::support::{Agent, Answer, Gateway, eventually};

fn attempt(row: &str, name: &str) -> Attempt {
    of_rows(&[row]).into_iter().find(|one| one.attempt == name).unwrap()
}

async fn tries(scene: &Scene, gateway: &Gateway, agent: &Agent, (row, name): (&str, &str)) -> Answer {
    agent
        .call("attempt", order(&attempt(row, name), &scene.given(gateway)))
        .await
}

async fn test_7(stage: Stage) {
    let scene = Scene::set(stage).await;
    let gateway = scene.gateway(|setup| setup).await;
    let agent = scene.agent(&gateway, "hostile", "ann").await;
    let mut bare = scene.bare();
    for (row, name) in [("F1", "read_secret"), ("F3", "write_outside")] {
        let without = bare.attempt(&attempt(row, name), &scene.given(&gateway));
        assert!(without.through, "{row} {name} without a sandbox: {without:?}");
    }
    scene.canaries.put_back();
    for (row, name) in [
        ("F1", "read_secret"),
        ("F1", "read_private_key"),
        ("F1", "read_ledger"),
        ("F3", "write_outside"),
        ("F3", "append_outside"),
        ("F3", "delete_outside"),
        ("F3", "rename_outside"),
    ] {
        let answer = tries(&scene, &gateway, &agent, (row, name)).await;
        let report = report_of(&answer);
        assert_eq!(report.errno.as_deref(), Some("ENOENT"), "{row} {name}: {report:?}");
        assert!(!answer.text().contains(&scene.canary), "{row} {name}");
        scene.canaries.must_be_untouched(name);
        let receipt = gateway.receipt_of(&answer);
        assert_eq!(receipt["sandbox"]["fs_policy"], "workspace_only", "{row} {name}");
    }
    assert!(
        !all(&gateway.home)
            .iter()
            .any(|record| record.to_string().contains(&scene.canary))
    );
}

async fn test_8(stage: Stage) {
    let scene = Scene::set(stage).await;
    let gateway = scene.gateway(|setup| setup).await;
    let agent = scene.agent(&gateway, "hostile", "ann").await;
    let mut bare = scene.bare();
    let tried = [
        (("N3", "public_8080"), ("direct_tcp", "93.184.216.34", 8080)),
        (("N2", "metadata"), ("direct_tcp", "169.254.169.254", 7777)),
        (("N5", "datagram_private"), ("direct_udp", "10.0.0.1", 7778)),
        (("N4", "resolve_denied"), ("dns", "denied.test", 53)),
        (("E1", "connect_denied"), ("connect", "denied.test", 443)),
    ];
    for ((row, name), _) in &tried[..4] {
        let without = bare.attempt(&attempt(row, name), &scene.given(&gateway));
        assert!(without.through, "{row} {name} without a sandbox: {without:?}");
    }
    scene.sides.forget();
    for ((row, name), (event, host, port)) in tried {
        let answer = tries(&scene, &gateway, &agent, (row, name)).await;
        assert!(!report_of(&answer).through, "{row} {name}: {}", answer.text());
        assert_eq!(scene.sides.touches(), Vec::<String>::new(), "{row} {name}");
        let is = |record: &Value| record["event"] == event && record["dst"] == json!({"host": host, "port": port});
        let blocked = || list(&gateway.home, &["--type", "egress", "--status", "blocked"]);
        eventually("the attempt is in the log", 5, async || blocked().iter().any(is)).await;
        let record = blocked().into_iter().find(is).unwrap();
        let receipt = gateway.receipt_of(&answer);
        let expected = json!([
            "blocked",
            "hostile",
            "attempt",
            receipt["receipt_id"],
            receipt["sandbox"]["instance"]
        ]);
        let found = json!([
            record["result"],
            record["server_id"],
            record["tool_name"],
            record["receipt_id"],
            record["instance"]
        ]);
        assert_eq!(found, expected, "{record}");
        assert!(record["session"].is_string(), "{record}");
        let (seen, ended) = (time_of(&record), time_of(&receipt));
        assert!(
            seen <= ended + jiff::SignedDuration::from_secs(1),
            "{seen} is late for {ended}"
        );
    }
}

async fn allowed_names(stage: Stage) {
    let scene = Scene::set(stage).await;
    let gateway = scene.gateway(super::table::allowing).await;
    let agent = scene.agent(&gateway, "hostile", "ann").await;
    let mut given = scene.given(&gateway);
    // The same words that fail for a denied name.
    for name in ["good.test", "any.wild.test"] {
        given.insert("denied".to_owned(), json!(name));
        for (row, how, event) in [
            ("E1", "connect_denied", "connect"),
            ("E1", "socks_denied", "socks5"),
            ("E1", "get_denied", "http"),
            ("N4", "resolve_denied", "dns"),
        ] {
            let answer = agent.call("attempt", order(&attempt(row, how), &given)).await;
            let report = report_of(&answer);
            assert!(report.through, "{name} by {how}: {}", report.said());
            let is = |record: &Value| record["event"] == event && record["dst"]["host"] == name;
            let allowed = || list(&gateway.home, &["--type", "egress", "--status", "allowed"]);
            eventually("the record", 5, async || allowed().iter().any(is)).await;
        }
    }
    assert_eq!(scene.sides.touches(), Vec::<String>::new());
    assert!(!scene.sides.arrivals().is_empty());
}

fn time_of(record: &Value) -> jiff::Timestamp {
    record["ts"].as_str().unwrap().parse().unwrap()
}

async fn receipts(stage: Stage) {
    let scene = Scene::set(stage).await;
    let pairs = [
        ("workspace_only", "block_all"),
        ("read_only", "block_all"),
        ("workspace_only", "allowlist"),
        ("none", "block_all"),
        ("workspace_only", "none"),
        ("none", "none"),
    ];
    let mut setup = scene.setup("s0", &[]);
    for (index, (fs, net)) in pairs.iter().enumerate() {
        let id = format!("s{index}");
        setup = scene.with_attacker(setup, &id, &[&format!("--called-{id}")]);
        setup = setup
            .set(&format!("servers.{id}.sandbox.fs"), fs)
            .set(&format!("servers.{id}.sandbox.net"), net);
    }
    let gateway = setup.start().await;
    for (index, (fs, net)) in pairs.iter().enumerate() {
        let id = format!("s{index}");
        let agent = scene.agent(&gateway, &id, "ann").await;
        let answer = tries(&scene, &gateway, &agent, ("F1", "read_secret")).await;
        let report = report_of(&answer);
        assert_eq!(report.through, *fs == "none", "{id}: {report:?}");
        let network = report_of(&tries(&scene, &gateway, &agent, ("N3", "public_8080")).await);
        assert_eq!(network.through, *net == "none", "{id}: {network:?}");
        let sandbox = gateway.receipt_of(&answer)["sandbox"].clone();
        assert_eq!(
            (&sandbox["fs_policy"], &sandbox["net_policy"]),
            (&json!(fs), &json!(net))
        );
        // With one side open it is no sandbox of a tier that a policy could count on.
        let tier = if [fs, net].contains(&&"none") { "C" } else { "A" };
        assert_eq!(sandbox["tier"], tier);
        let said = format!(
            "sandbox {} of tier {tier} stands: fs {fs}, net {net}",
            sandbox["instance"].as_str().unwrap()
        );
        let started = list(&gateway.home, &["--type", "inventory", "--limit", "1000"]);
        assert!(
            started.iter().any(|record| record.to_string().contains(&said)),
            "{said}"
        );
        compare_with_kernel(&format!("--called-{id}"), &sandbox["layers"]);
    }
}

/// What the kernel knows of a server's processes is what the receipt says of its walls.
fn compare_with_kernel(word: &str, layers: &Value) {
    let layers: Vec<&str> = layers
        .as_array()
        .unwrap()
        .iter()
        .map(|layer| layer.as_str().unwrap())
        .collect();
    let processes = super::nuisances::numbers_with(word);
    assert!(!processes.is_empty(), "{:?}", processes_with(word));
    for process in processes {
        for (layer, namespace) in [
            ("userns", "user"),
            ("mntns", "mnt"),
            ("pidns", "pid"),
            ("ipcns", "ipc"),
            ("utsns", "uts"),
            ("cgroupns", "cgroup"),
            ("netns", "net"),
        ] {
            let link = |whose: &str| std::fs::read_link(format!("/proc/{whose}/ns/{namespace}")).unwrap();
            let is_apart = link(&process) != link("self");
            assert_eq!(is_apart, layers.contains(&layer), "{word} {layer}: {layers:?}");
        }
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let has = |line: &str| {
            status
                .lines()
                .any(|found| found.split_whitespace().eq(line.split_whitespace()))
        };
        assert_eq!(has("Seccomp: 2"), layers.contains(&"seccomp"), "{word}: {layers:?}");
        assert_eq!(has("NoNewPrivs: 1"), layers.contains(&"nnp"), "{word}: {layers:?}");
        assert!(has("CapEff: 0000000000000000"), "{word}: {status}");
        assert!(
            !layers.contains(&"caps") || has("CapBnd: 0000000000000000"),
            "{word}: {status}"
        );
        assert!(!has("Uid: 0 0 0 0"), "{word}: {status}");
    }
}

on_stage! {
    // R146, R150, R203, R204
    fn conformance_7_writes_and_reads_outside_the_workspace_fail_and_leave_nothing, Root, test_7;
    // R146, R150, R203, R204
    fn conformance_7_holds_for_an_ordinary_user, Ordinary, test_7;
    // R147, R151, R205, R206
    fn conformance_8_what_is_not_allowlisted_is_not_reached_and_the_log_says_so, Root, test_8;
    // R147, R151, R205, R206
    fn conformance_8_holds_for_an_ordinary_user, Ordinary, test_8;
    // R147
    fn names_on_the_list_are_reached_by_every_door, Root, allowed_names;
    // R147
    fn names_on_the_list_are_reached_by_every_door_of_an_ordinary_user, Ordinary, allowed_names;
    // R182, R183
    fn receipts_say_what_the_launcher_built, Root, receipts;
    // R182, R183
    fn receipts_of_an_ordinary_gateway_say_what_the_launcher_built, Ordinary, receipts;
}
