//! Texts of paths: what stays inside passes, and everything that somebody could read as a way out does not.

use proptest::prelude::*;

use super::*;

fn bounds() -> Bounds {
    Bounds {
        workspace: "/srv/agents/files".to_owned(),
        read: vec!["/opt/data".to_owned()],
    }
}

fn fault(text: &str) -> Option<PathFault> {
    judge(text, Some(&bounds())).err()
}

#[test]
fn what_stays_inside_passes_with_its_way_from_there() {
    for (text, base, relative) in [
        (".", Base::Workspace, "."),
        ("", Base::Workspace, "."),
        ("a.txt", Base::Workspace, "a.txt"),
        ("./a/b.txt", Base::Workspace, "./a/b.txt"),
        ("a//b/", Base::Workspace, "a//b/"),
        ("/srv/agents/files", Base::Workspace, "."),
        ("/srv/agents/files/", Base::Workspace, "."),
        ("/srv/agents/files/a/b.txt", Base::Workspace, "a/b.txt"),
        ("//srv/./agents//files/./a", Base::Workspace, "a"),
        ("/opt/data/x.csv", Base::Read(0), "x.csv"),
    ] {
        assert_eq!(judge(text, Some(&bounds())), Ok(Some((base, relative))), "{text:?}");
    }
    for honest in [
        "notes/Übersicht – März.md",
        "日本語/ファイル.txt",
        "ノート/丿.txt",
        "family 👨\u{200d}👩\u{200d}👧.png",
        "Notes…\u{200b} more.md",
        "100% sure.txt",
        "a%20b.txt",
        "50%25.csv",
        "x~",
        "dir/~backup",
        "routes/$id.tsx",
        "[slug]/page.tsx",
        "src/main.rs:12",
        "./...",
        "pkg/...",
        "..hidden",
        "a..b",
        "v1...v2",
        ".env",
        "it's.txt",
        "a;b",
        "{a,b}.txt",
        "**/*.rs",
        "-rf",
        "con.txt",
        "a/ /b",
    ] {
        assert_eq!(fault(honest), None, "{honest:?}");
    }
}

#[test]
fn every_way_out_is_refused() {
    for (text, expected) in [
        ("..", PathFault::Parent),
        ("../etc/passwd", PathFault::Parent),
        ("a/../../etc/passwd", PathFault::Parent),
        ("a/../b", PathFault::Parent),
        ("a/..", PathFault::Parent),
        ("/srv/agents/files/../../../etc/passwd", PathFault::Parent),
        ("....//....//etc/passwd", PathFault::Parent),
        ("..././..././etc/passwd", PathFault::Parent),
        (".. /etc", PathFault::Parent),
        (" ../etc", PathFault::Parent),
        ("..;/etc", PathFault::Parent),
        ("\"../etc\"", PathFault::Parent),
        ("'\u{2025}/etc'", PathFault::Parent),
        (".\u{200b}./etc", PathFault::Parent),
        ("\u{feff}../etc", PathFault::Parent),
        ("..\u{202e}/etc", PathFault::Parent),
        ("/etc/passwd", PathFault::Outside),
        ("//etc/passwd", PathFault::Outside),
        ("/srv/agents/files2/x", PathFault::Outside),
        ("/srv/agents", PathFault::Outside),
        ("/", PathFault::Outside),
        ("/proc/self/environ", PathFault::Outside),
        ("/opt/database", PathFault::Outside),
        ("%2e%2e%2fetc%2fpasswd", PathFault::Encoded),
        ("%2E%2E/etc", PathFault::Encoded),
        ("..%2fetc", PathFault::Encoded),
        ("a%2f..%2f..%2fetc", PathFault::Encoded),
        ("%252e%252e%252fetc", PathFault::Encoded),
        ("%25252e%25252e/etc", PathFault::Encoded),
        ("..%c0%afetc", PathFault::Encoded),
        ("%c0%ae%c0%ae/etc", PathFault::Encoded),
        ("%e0%80%ae/etc", PathFault::Encoded),
        ("%u002e%u002e%u2215etc", PathFault::Encoded),
        ("%f0%80%80%af/etc", PathFault::Encoded),
        ("%ef%bc%8e%ef%bc%8e/etc", PathFault::Encoded),
        ("%5c..%5c..", PathFault::Encoded),
        ("a%00.txt", PathFault::Encoded),
        ("%20/etc/passwd", PathFault::Encoded),
        ("%7e/.ssh/id_rsa", PathFault::Encoded),
        ("file%3a///etc/passwd", PathFault::Encoded),
        ("\u{ff0e}\u{ff0e}/etc", PathFault::Parent),
        ("\u{2025}/etc", PathFault::Parent),
        ("\u{2024}\u{2024}/etc", PathFault::Parent),
        ("\u{fe52}./etc", PathFault::Parent),
        ("\u{2026}/etc", PathFault::Parent),
        ("a/\u{fe19}", PathFault::Parent),
        ("..\u{2215}etc", PathFault::LookAlike),
        ("..\u{2044}etc", PathFault::LookAlike),
        ("..\u{ff0f}etc", PathFault::LookAlike),
        ("..\u{29f8}etc", PathFault::LookAlike),
        ("..\u{ff3c}etc", PathFault::LookAlike),
        ("..\u{2216}etc", PathFault::LookAlike),
        ("..\\..\\etc\\passwd", PathFault::Separator),
        ("a\\b", PathFault::Separator),
        ("\\\\host\\share", PathFault::Separator),
        ("\\\\?\\C:\\Windows", PathFault::Separator),
        ("C:\\Windows", PathFault::Separator),
        ("C:/Windows", PathFault::Drive),
        ("c:boot.ini", PathFault::Drive),
        (" c:/Windows", PathFault::Drive),
        ("a\0.txt", PathFault::Control),
        ("../../etc/passwd\0.png", PathFault::Control),
        ("a\n/etc/passwd", PathFault::Control),
        ("a\tb", PathFault::Control),
        ("a\u{85}b", PathFault::Control),
        ("a\u{2028}b", PathFault::Control),
        ("~", PathFault::Home),
        ("~/.ssh/id_rsa", PathFault::Home),
        ("~root/.ssh", PathFault::Home),
        (" ~/.ssh", PathFault::Home),
        ("\"~/.ssh\"", PathFault::Home),
        ("file:///etc/passwd", PathFault::Url),
        ("FILE:///etc/passwd", PathFault::Url),
        ("file:/etc/passwd", PathFault::Url),
        ("file:etc/passwd", PathFault::Url),
        ("https://evil.test/x", PathFault::Url),
        ("smb://host/share", PathFault::Url),
        (" /etc/passwd", PathFault::Hidden),
        ("\u{200b}/etc/passwd", PathFault::Hidden),
        ("\"/etc/passwd\"", PathFault::Hidden),
        ("'/etc/passwd'", PathFault::Hidden),
    ] {
        let found = fault(text);
        assert!(found.is_some(), "{text:?} passed");
        let parent = [expected, PathFault::Parent];
        assert!(
            found.is_some_and(|found| parent.contains(&found)),
            "{text:?}: {found:?}"
        );
    }
    assert_eq!(fault(&"a".repeat(256)), Some(PathFault::TooLong));
    assert_eq!(fault(&"a/".repeat(2048)), Some(PathFault::TooLong));
    assert_eq!(fault(&"a".repeat(255)), None);
    assert_eq!(fault(&format!("{}a", "a/".repeat(2047))), None, "4,095 bytes");
}

#[test]
fn without_a_workspace_a_path_is_relative() {
    assert_eq!(judge("a/b", None), Ok(None));
    assert_eq!(judge("/a/b", None), Err(PathFault::Outside));
    assert_eq!(judge("../a", None), Err(PathFault::Parent));
}

/// What a careless server might do to a path before it opens it.
fn careless(text: &str) -> Vec<String> {
    let plain = String::from_utf8_lossy(&decoded(text.as_bytes()).ok().flatten().unwrap_or_default()).into_owned();
    let folded = |text: &str| -> String {
        let sign = |found: char| match dots(found) {
            0 if is_separator_alike(found) || found == '\\' => "/".to_owned(),
            0 if is_hidden(found) => String::new(),
            0 => found.to_string(),
            count => ".".repeat(count),
        };
        text.chars().map(sign).collect()
    };
    let trimmed = |text: &str| text.trim().trim_matches(['"', '\'', '`']).to_owned();
    let mut ways = vec![text.to_owned(), plain];
    ways.extend(ways.clone().iter().map(|way| folded(way)));
    ways.extend(ways.clone().iter().map(|way| trimmed(way)));
    ways
}

fn leads_out(text: &str) -> bool {
    let mut depth = 0_i32;
    if text.starts_with('/') || text.starts_with('~') {
        return true;
    }
    text.split('/').any(|part| {
        depth += match part.trim() {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_relative_path_that_passes_leads_out_to_nobody(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("..".to_owned()), Just("%2e".to_owned()), Just("%2f".to_owned()), Just("/".to_owned()), Just(".".to_owned()),
                Just("\u{ff0e}".to_owned()), Just("\u{2215}".to_owned()), Just("\u{200b}".to_owned()), Just(" ".to_owned()),
                Just("\"".to_owned()), Just("~".to_owned()), Just("%25".to_owned()), Just("\\".to_owned()), Just("\u{2025}".to_owned()),
                Just("a".to_owned()), ".{1,3}",
            ],
            1..8,
        )
    ) {
        let text = parts.concat();
        if judge(&text, None).is_ok() {
            for way in careless(&text) {
                prop_assert!(!leads_out(&way), "{:?} is read as {:?}", text, way);
            }
        }
    }

    #[test]
    fn plain_names_pass(parts in proptest::collection::vec("[a-zA-Z0-9_äé][a-zA-Z0-9 _.äé-]{0,20}", 1..6)) {
        prop_assert!(judge(&parts.join("/"), Some(&bounds())).is_ok());
    }
}
