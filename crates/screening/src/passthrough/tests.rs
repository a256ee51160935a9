use proptest::prelude::*;
use vocabulary::Secret;

use super::Needles;

const TOKEN: &str = "eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJodHRwczovL2lkcC5leGFtcGxlIiwic3ViIjoiYW5uPz8_In0.\
                     mZ3-_Qy0b7Jt5xkPzR4sVwYc2dFgHhIiKkLlMmNnOoPpQqRrSsTtUuVvWwXxYyZz012345";

fn needles(token: &str) -> Needles {
    Needles::of(&Secret::new(token.to_owned()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8], alphabet: [char; 2]) -> String {
    let spell = |six: u32| match six {
        0..=25 => char::from(b'A' + six as u8),
        26..=51 => char::from(b'a' + six as u8 - 26),
        52..=61 => char::from(b'0' + six as u8 - 52),
        62 => alphabet[0],
        _ => alphabet[1],
    };
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        out.extend((0..=group.len()).map(|place| spell(number >> (18 - 6 * place) & 63)));
    }
    out
}

/// Every disguise of a credential, by name.
fn disguises(token: &str) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, String)> = vec![
        ("as it is".into(), token.into()),
        ("within words".into(), format!("x{token}y")),
        ("a scheme before it".into(), format!("Bearer {token}")),
        ("a piece of sixteen bytes".into(), token.get(30..46).unwrap().into()),
        ("its first bytes".into(), token.get(..16).unwrap().into()),
        ("its last bytes".into(), token.get(token.len() - 16..).unwrap().into()),
        ("small hexadecimal".into(), hex(token.as_bytes())),
        ("capital hexadecimal".into(), hex(token.as_bytes()).to_uppercase()),
        ("a piece of hexadecimal".into(), hex(&token.as_bytes()[41..57])),
        (
            "JSON escapes for all".into(),
            token.chars().map(|c| format!("\\u{:04x}", c as u32)).collect(),
        ),
        (
            "JSON escapes for some".into(),
            token.replace('e', "\\u0065").replace('.', "\\u002E"),
        ),
        ("escapes of escapes".into(), token.replace('y', "\\\\u0079")),
        (
            "percent for all".into(),
            token.bytes().map(|b| format!("%{b:02x}")).collect(),
        ),
        ("percent for some".into(), token.replace('.', "%2E").replace('J', "%4a")),
        ("percent of percent".into(), token.replace('I', "%2549")),
        ("percent in JSON escapes".into(), token.replace('I', "\\u002549")),
        ("script escapes".into(), token.replace('I', "\\x49")),
        (
            "slashes escaped".into(),
            base64(token.as_bytes(), ['+', '/']).replace('/', "\\/"),
        ),
    ];
    for (name, alphabet) in [("base64", ['+', '/']), ("base64 for URLs", ['-', '_'])] {
        for before in ["", "u", "us", "user:"] {
            let text = base64(format!("{before}{token}@").as_bytes(), alphabet);
            all.push((format!("{name} after {} bytes", before.len()), text));
        }
        let lines = base64(token.as_bytes(), alphabet);
        let lines: Vec<&str> = lines
            .as_bytes()
            .chunks(76)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        all.push((format!("{name} in lines"), lines.join("\r\n")));
    }
    all.into_iter().map(|(name, text)| (name, text.into_bytes())).collect()
}

#[test]
fn a_credential_is_found_in_each_disguise_wherever_it_stands() {
    // R130
    let needles = needles(TOKEN);
    let all = disguises(TOKEN);
    assert!(all.len() >= 20);
    for (name, disguised) in all {
        for padding in 0..9 {
            let text = [vec![b'.'; padding], disguised.clone(), b"\"}}".to_vec()].concat();
            assert!(needles.are_in(&text), "{name}, {padding} bytes ahead");
        }
    }
}

#[test]
fn what_is_no_piece_of_the_credential_is_none() {
    let needles = needles(TOKEN);
    for text in [
        &b""[..],
        b"eyJhbGci",
        b"%%%\\\\\\u00",
        b"{\"path\":\"/srv/agents/files/notes.txt\",\"text\":\"50% of \\\"all\\\" of it\\n\"}",
        &TOKEN.as_bytes()[30..45],
        hex(&TOKEN.as_bytes()[30..45]).as_bytes(),
    ] {
        assert!(!needles.are_in(text), "{}", String::from_utf8_lossy(text));
    }
    assert!(!Needles::none().are_in(TOKEN.as_bytes()));
}

#[test]
fn of_a_servers_own_credential_only_the_inbound_signature_counts() {
    // R122
    let needles = needles(TOKEN);
    let (head, signature) = TOKEN.rsplit_once('.').unwrap();
    let sibling = format!("Bearer {head}.another-signature-of-the-same-issuer");
    assert!(!needles.are_in_credential(sibling.as_bytes()));
    assert!(!needles.are_in_credential(&signature.as_bytes()[1..]));
    for disguised in [
        format!("Bearer {TOKEN}"),
        format!("Basic {}", base64(format!("user:{TOKEN}").as_bytes(), ['+', '/'])),
        signature.to_owned(),
        hex(TOKEN.as_bytes()),
        signature.replace('-', "%2d"),
    ] {
        assert!(needles.are_in_credential(disguised.as_bytes()), "{disguised}");
    }
}

#[test]
fn of_an_opaque_credential_the_whole_counts() {
    let opaque = "ptr_agt_Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA";
    let needles = needles(opaque);
    assert!(needles.are_in_credential(format!("Bearer {opaque}").as_bytes()));
    assert!(!needles.are_in_credential(&opaque.as_bytes()[1..]));
    assert!(needles.are_in(&opaque.as_bytes()[5..21]));
}

#[test]
fn a_short_credential_is_found_whole() {
    let needles = needles("s3cr3t-key");
    assert!(needles.are_in(b"x-s3cr3t-key-x"));
    assert!(!needles.are_in(b"x-s3cr3t-ke"));
    assert!(needles.are_in(hex(b"s3cr3t-key").as_bytes()));
}

proptest! {
    #[test]
    fn any_sixteen_bytes_are_found_in_any_text_and_encoding(
        token in "[A-Za-z0-9._~+/-]{16,200}",
        start in 0_usize..1000,
        before in "[ -~]{0,40}",
        after in "[ -~]{0,40}",
    ) {
        let needles = needles(&token);
        let start = start % (token.len() - 15);
        let piece = token.get(start..start + 16).unwrap();
        let text = format!("{before}{piece}{after}");
        prop_assert!(needles.are_in(text.as_bytes()));
        prop_assert!(needles.are_in(hex(text.as_bytes()).as_bytes()));
        prop_assert!(needles.are_in(base64(text.as_bytes(), ['+', '/']).as_bytes()));
        prop_assert!(needles.are_in(base64(text.as_bytes(), ['-', '_']).as_bytes()));
    }
}
