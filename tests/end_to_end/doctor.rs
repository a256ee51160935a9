//! `doctor`: what this machine gives, found by trying.

use serde_json::Value;

use crate::support::Setup;
use crate::support::environment::{Finished, command, portreeve};

#[test]
fn it_needs_no_configuration_and_says_what_it_found() {
    let empty = tempfile::tempdir().unwrap();
    let ask = |words: &[&str]| {
        let mut doctor = command(portreeve());
        doctor.current_dir(empty.path()).env("HOME", empty.path());
        doctor.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        Finished::of(doctor.arg("doctor").args(words))
    };
    let (people, programs) = (ask(&[]), ask(&["--json"]));
    let found: Value = serde_json::from_str(&programs.stdout).unwrap();
    let tier = found["sandbox"]["tier"].as_str().unwrap();
    assert_eq!(programs.code, Some(i32::from(tier != "A")), "{found}");
    assert_eq!(people.code, programs.code);
    assert!(people.stdout.contains(&format!("tier {tier}: ")), "{}", people.stdout);
    assert_eq!(found["sandbox"]["missing"].as_array().unwrap().is_empty(), tier == "A");
    for missing in found["sandbox"]["missing"].as_array().unwrap() {
        assert!(!missing["remedy"].as_str().unwrap().is_empty(), "{missing}");
    }
    assert!(found["sandbox"]["uid"].as_u64().unwrap() > 0, "no server runs as root");
    let checks = found["checks"].as_array().unwrap();
    let check = |name: &str| checks.iter().find(|check| check["check"] == name).unwrap();
    assert_eq!(check("configuration")["ok"], Value::Null);
    assert_eq!(check("clock")["ok"], true);
    assert_eq!(empty.path().read_dir().unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn with_a_configuration_it_looks_at_tls_store_and_log() {
    let home = Setup::new().unset("listen.tls").home();
    let found: Value = serde_json::from_str(&home.cli(&["doctor", "--json"]).stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    for name in ["configuration", "tls", "state", "store", "log", "clock"] {
        let check = checks.iter().find(|check| check["check"] == name).unwrap();
        assert_eq!(check["ok"], true, "{check}");
    }
    assert!(!home.state().exists(), "it makes nothing");
    home.write_config("[limits]\ntimeout = \"soon\"\n");
    let found: Value = serde_json::from_str(&home.cli(&["doctor", "--json"]).stdout).unwrap();
    assert_eq!(found["checks"][0]["ok"], false);
}
