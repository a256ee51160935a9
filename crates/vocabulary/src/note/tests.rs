use super::*;

/// The example of C2SP's signed-note test vectors.
const EXAMPLE: &str = "This is an example message.\n\n\
    — example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";
const EXAMPLE_KEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

/// The example of Go's `sumdb/note`, with its private key: a seed.
const GO_TEXT: &str =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
const GO_LINE: &str =
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
const GO_KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const GO_SEED: &str = "gQoUAtUUbI2E8kQzMPVAgOv5juF9nHT2JS/F1ccoMXM=";

fn verifier(vkey: &str) -> Verifier {
    Verifier::parse(vkey).unwrap()
}

/// A PKCS#8 key of a seed is this head and the seed (RFC 8410).
fn pem_of(seed: &str) -> String {
    let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let whole = [&head[..], &BASE64.decode(seed.as_bytes()).unwrap()].concat();
    format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        BASE64.encode(&whole)
    )
}

fn name(text: &str) -> KeyName {
    KeyName::parse(text).unwrap()
}

fn signer(text: &str) -> Signer {
    Signer::generate(name(text)).unwrap()
}

#[test]
fn the_published_notes_verify_and_are_signed_alike() {
    let (text, lines) = split(EXAMPLE).unwrap();
    assert_eq!(text, "This is an example message.\n");
    let keys = [verifier(GO_KEY), verifier(EXAMPLE_KEY)];
    assert_eq!(verify(text, lines, &keys).unwrap(), [&keys[1]]);
    assert_eq!(verify(GO_TEXT, GO_LINE, &keys).unwrap(), [&keys[0]]);
    let signer = Signer::from_pem(&pem_of(GO_SEED), &name("PeterNeumann")).unwrap();
    assert_eq!(signer.verifier().to_string(), GO_KEY);
    assert_eq!(sign(GO_TEXT, &signer).unwrap().to_line(), GO_LINE);
}

#[test]
fn every_changed_byte_of_text_or_signature_is_found() {
    let keys = [verifier(GO_KEY)];
    for at in 0..GO_TEXT.len() {
        for flip in [1, 0x20] {
            let mut bytes = GO_TEXT.as_bytes().to_vec();
            bytes[at] ^= flip;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(verify(&changed, GO_LINE, &keys).is_err(), "{at}");
        }
    }
    for at in 0..GO_LINE.len() {
        let mut bytes = GO_LINE.as_bytes().to_vec();
        bytes[at] ^= 1;
        if let Ok(changed) = String::from_utf8(bytes) {
            assert!(verify(GO_TEXT, &changed, &keys).is_err(), "{at}");
        }
    }
    for end in 0..GO_LINE.len() {
        if let Some(cut) = GO_LINE.get(..end) {
            assert!(verify(GO_TEXT, cut, &keys).is_err(), "{end}");
        }
    }
}

#[test]
fn strangers_do_not_count_and_known_keys_must_be_right() {
    let (old, new, stranger) = (signer("ops"), signer("ops"), signer("ops"));
    let line = |signer: &Signer| sign("text\n", signer).unwrap().to_line();
    let both = [old.verifier().clone(), new.verifier().clone()];
    let only_new = [new.verifier().clone()];
    assert_eq!(verify("text\n", &line(&old), &both).unwrap().len(), 1);
    // Rotation: the lock bears both signatures until the old key is taken out.
    let twice = format!("{}{}", line(&old), line(&new));
    assert_eq!(verify("text\n", &twice, &both).unwrap().len(), 2);
    assert_eq!(verify("text\n", &twice, &only_new).unwrap(), [new.verifier()]);
    let retired = verify("text\n", &line(&old), &only_new).unwrap_err();
    let told = retired.to_string();
    assert!(
        matches!(retired, NoteFault::Stranger(_)) && told.contains(&key::hex(old.verifier().id())),
        "{told}"
    );
    let beside = format!("{}{}", line(&stranger), line(&new));
    assert_eq!(verify("text\n", &beside, &only_new).unwrap().len(), 1);
    // A known key whose signature is of another text spoils the note, whoever else has signed.
    let other = sign("other\n", &old).unwrap().to_line();
    let spoiled = verify("text\n", &format!("{}{other}", line(&new)), &both);
    assert_eq!(spoiled, Err(NoteFault::Forged(old.verifier().shown())));
    let repeated = format!("{}{other}", line(&old));
    assert!(verify("text\n", &repeated, &both).is_err(), "one of two is wrong");
    assert!(verify("text\n", &line(&new), &[]).is_err());
}

#[test]
fn what_is_no_signature_line_is_told_by_its_place_and_not_repeated() {
    let good = GO_LINE;
    for (lines, fault) in [
        (String::new(), NoteFault::Unsigned),
        ("\n".to_owned(), NoteFault::Line(1)),
        (format!("{good}\n"), NoteFault::Line(2)),
        (format!("{good}garbage\n"), NoteFault::Line(2)),
        (good.replace('—', "-"), NoteFault::Line(1)),
        (good.replace("— ", "—  "), NoteFault::Line(1)),
        (good.trim_end().to_owned(), NoteFault::Line(1)),
        (good.replace('\n', "\r\n"), NoteFault::Line(1)),
        ("— PeterNeumann x08gow==\n".to_owned(), NoteFault::Line(1)),
        (good.repeat(101), NoteFault::TooMany),
    ] {
        assert_eq!(verify(GO_TEXT, &lines, &[verifier(GO_KEY)]), Err(fault), "{lines}");
    }
    assert!(verify(GO_TEXT, &good.repeat(100), &[verifier(GO_KEY)]).is_ok());
    for text in ["", "no end", "tab\t\n", "return\r\n", "nul\0\n"] {
        assert_eq!(
            verify(text, good, &[verifier(GO_KEY)]),
            Err(NoteFault::Text),
            "{text:?}"
        );
        assert_eq!(sign(text, &signer("a")).unwrap_err(), NoteFault::Text);
    }
}

#[test]
fn a_note_is_parted_at_its_last_empty_line() {
    assert_eq!(split("a\n\nb\n\n— x y\n"), Ok(("a\n\nb\n", "— x y\n")));
    assert_eq!(split("a\n— x y\n"), Err(NoteFault::Parts));
    assert_eq!(split(""), Err(NoteFault::Parts));
}

#[test]
fn a_vkey_says_what_it_is_or_is_refused() {
    assert_eq!(verifier(GO_KEY).to_string(), GO_KEY);
    assert_eq!(verifier(GO_KEY).shown(), "PeterNeumann+c74f20a3");
    let other_algorithm = GO_KEY.replace("+AR", "+BB");
    for (vkey, fault) in [
        ("", KeyFault::Form),
        ("PeterNeumann+c74f20a3", KeyFault::Form),
        ("+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", KeyFault::Name),
        (
            "Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            KeyFault::Name,
        ),
        (
            "PeterNeuman+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            KeyFault::Hash,
        ),
        (
            "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            KeyFault::Hash,
        ),
        (
            "PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            KeyFault::Form,
        ),
        (
            "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10T",
            KeyFault::Form,
        ),
        (&other_algorithm, KeyFault::Algorithm),
    ] {
        assert_eq!(Verifier::parse(vkey), Err(fault), "{vkey}");
    }
}

#[test]
fn a_private_key_is_read_as_it_was_written_and_never_printed() {
    let made = signer("ops.example/locks");
    let pem = made.to_pem().unwrap();
    let vkey = Signer::vkey_in(pem.expose()).unwrap().unwrap();
    assert_eq!(vkey, *made.verifier());
    let read = Signer::from_pem(pem.expose(), vkey.name()).unwrap();
    assert_eq!(sign("a\n", &read).unwrap(), sign("a\n", &made).unwrap());
    assert_eq!(format!("{made:?}"), format!("Signer({})", vkey.shown()));
    assert!(Signer::is_pair(pem.expose(), &vkey));
    assert!(!Signer::is_pair(pem.expose(), &verifier(GO_KEY)));
    assert_eq!(Signer::vkey_in(&pem_of(GO_SEED)), None);
    let fault = |text: &str| Signer::from_pem(text, vkey.name()).unwrap_err();
    let other = pem.expose().replace(&vkey.to_string(), EXAMPLE_KEY);
    assert_eq!(fault(&other), KeyFault::Pair);
    let whole = pem.expose();
    let cut = whole.get(..whole.len() - 30).unwrap();
    for text in ["", "garbage", cut, &whole.repeat(2)] {
        assert_eq!(fault(text), KeyFault::Private);
    }
    let rsa = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n";
    assert_eq!(fault(rsa), KeyFault::Private);
}

#[test]
fn a_signature_has_one_spelling() {
    let spelled = |coded: &str| Signature::read_all(&format!("\u{2014} gw/test {coded}\n"));
    assert!(spelled("AAAAAAAAAAA=").is_ok());
    // Two padded pieces, and bits that nothing asks for.
    for other in ["AAA=AAAAAAA=", "AAAAAAAAAAB=", "AAAAAAAAAAA"] {
        assert!(spelled(other).is_err(), "{other}");
    }
}
