use super::*;

fn directory(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("portreeve-tls-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    dir
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

#[test]
fn a_certificate_is_kept_until_its_time_runs_short_or_its_names_change() {
    let dir = directory("renewal");
    let clock = Clock::standing_at(at("2026-11-15T12:00:00Z"));
    let names = vec!["localhost".to_owned()];
    let source = TlsSource::Auto {
        dir: dir.clone(),
        names: names.clone(),
    };
    let serving = ServingCertificate::load(source, clock.clone()).expect("made");
    let (ca, first) = (
        fs::read(local_ca(&dir)).expect("ca"),
        fs::read(dir.join("server.pem")).expect("cert"),
    );

    clock.turn_to(at("2026-12-15T12:00:00Z"));
    serving.renew().expect("kept");
    assert_eq!(
        fs::read(dir.join("server.pem")).expect("cert"),
        first,
        "60 days left: kept"
    );

    clock.turn_to(at("2027-01-20T12:00:00Z"));
    serving.renew().expect("renewed");
    let second = fs::read(dir.join("server.pem")).expect("cert");
    assert_ne!(second, first, "less than 30 days left: renewed");
    assert_eq!(
        fs::read(local_ca(&dir)).expect("ca"),
        ca,
        "the CA that clients trust stays"
    );

    let more = TlsSource::Auto {
        dir: dir.clone(),
        names: vec!["gw.example".to_owned()],
    };
    ServingCertificate::load(more, clock).expect("made");
    assert_ne!(
        fs::read(dir.join("server.pem")).expect("cert"),
        second,
        "other names: made anew"
    );
    fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn keys_are_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = directory("rights");
    let source = TlsSource::Auto {
        dir: dir.clone(),
        names: vec!["localhost".to_owned()],
    };
    ServingCertificate::load(source, Clock::system()).expect("made");
    for name in ["ca.key", "server.key"] {
        assert_eq!(
            fs::metadata(dir.join(name)).expect("there").permissions().mode() & 0o777,
            0o600,
            "{name}"
        );
    }
    fs::remove_dir_all(&dir).expect("removed");
}
