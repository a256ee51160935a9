//! What a sandbox says at its doors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use rustls::server::Acceptor;
use sandbox::fuzzing::{Conversations, Hello, MOST_HEAD, authority, packet, question, refusals};
use tokio::runtime::{Builder, Runtime};

/// A name is read only where a TLS server reads the very same one; more bytes never change what was decided.
pub fn hello(data: &[u8]) {
    let Some((cut, said)) = data.split_first() else { return };
    let read = sandbox::fuzzing::hello(said);
    let before = said.get(..usize::from(*cut) * 2).unwrap_or(said);
    match sandbox::fuzzing::hello(before) {
        Hello::Short(needed) => {
            assert!(needed > before.len(), "more is asked for, and it is there");
            if let Some(enough) = said.get(..needed) {
                assert_ne!(
                    sandbox::fuzzing::hello(enough),
                    Hello::Short(needed),
                    "the same is asked for again"
                );
            }
        }
        decided => assert_eq!(decided, read, "what was decided changed"),
    }
    if let Hello::For(host) = &read {
        assert_eq!(
            authority(host.as_bytes(), Some(443)),
            Some((host.clone(), 443)),
            "not in normal form"
        );
    }
    let Some(name) = by_a_server(said) else { return };
    match (read, name) {
        (Hello::For(host), Some(name)) => assert_eq!(host, name.trim_end_matches('.').to_ascii_lowercase()),
        (Hello::For(host), None) => panic!("{} letters of a name, and a server sees none", host.len()),
        (Hello::Nameless, Some(_)) => panic!("a server reads a name where we read none"),
        (Hello::Nameless | Hello::Misnamed | Hello::NotTls | Hello::Short(_), _) => {}
    }
}

/// The server name as a TLS library reads it; the outer `None` where that takes it for no `ClientHello`.
fn by_a_server(said: &[u8]) -> Option<Option<String>> {
    let mut acceptor = Acceptor::default();
    let mut left = said;
    while !left.is_empty() {
        match acceptor.read_tls(&mut left) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return None,
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => return Some(accepted.client_hello().server_name().map(str::to_owned)),
            Ok(None) => {}
            Err(_) => return None,
        }
    }
    None
}

/// A question is repeated byte for byte, its name stands for one sequence of labels alone, and an answer is short.
pub fn dns(data: &[u8]) {
    let Some((name, answered, refused)) = question(data) else {
        return;
    };
    let length = refused.len() - 12;
    assert_eq!(
        refused.get(12..),
        data.get(12..12 + length),
        "another question is repeated"
    );
    assert_eq!(refused.get(..2), data.get(..2), "another id");
    assert!(refused.len() <= data.len() && answered.len() == refused.len() + 16);
    assert_eq!((refused[3] & 15, answered[3] & 15), (5, 0));
    assert_eq!((refused[7], answered[7]), (0, 1));
    assert_eq!(answered.get(12..12 + length), data.get(12..12 + length));
    let labels = spelled(&name);
    assert_eq!(
        Some(labels.as_slice()),
        data.get(12..12 + length - 4),
        "the name is that of another question"
    );
    assert!(labels.len() <= 255, "a name of {} bytes", labels.len());
}

/// The labels that a dotted, escaped name stands for.
fn spelled(name: &[u8]) -> Vec<u8> {
    let mut labels: Vec<Vec<u8>> = Vec::new();
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        if labels.is_empty() || *byte == b'.' {
            labels.push(Vec::new());
        }
        let letter = match byte {
            b'.' => continue,
            b'\\' => bytes.next(),
            letter => Some(letter),
        };
        if let (Some(label), Some(letter)) = (labels.last_mut(), letter) {
            label.push(*letter);
        }
    }
    let mut wire = Vec::new();
    for label in labels {
        wire.push(u8::try_from(label.len()).expect("a label has at most 63 bytes"));
        wire.extend(label);
    }
    wire.push(0);
    wire
}

/// What was understood, spelled again, is what was said and read, however it came; and one answer went back at most.
pub fn socks(data: &[u8]) {
    let Some((piece, said)) = data.split_first() else {
        return;
    };
    let whole = sandbox::fuzzing::socks(said, usize::MAX);
    assert_eq!(
        sandbox::fuzzing::socks(said, usize::from(*piece)),
        whole,
        "it makes a difference how it came"
    );
    assert!(whole.answered.is_empty() || whole.answered == [5, 0]);
    let Some((command, host, port)) = whole.request else {
        return;
    };
    let greeting = 2 + usize::from(said[1]);
    assert!(said[2..greeting].contains(&0), "no authentication was not offered");
    let read = &said[greeting..said.len() - whole.left];
    let text = || std::str::from_utf8(&host).expect("an address is ASCII");
    let address = match read[3] {
        1 => text().parse::<Ipv4Addr>().expect("IPv4").octets().to_vec(),
        4 => text().parse::<Ipv6Addr>().expect("IPv6").octets().to_vec(),
        _ => [&[u8::try_from(host.len()).expect("at most 255")], host.as_slice()].concat(),
    };
    let again = [&[5, command, read[2], read[3]], address.as_slice(), &port.to_be_bytes()].concat();
    assert_eq!(again, read, "something else was understood than was said");
    if let Some((named, _)) = authority(&host, Some(port)) {
        assert!(
            read[3] == 3 && named.parse::<IpAddr>().is_err(),
            "an address passes for a name"
        );
    }
}

/// The head ends at the first empty line, however it came; its line and its authority are read as an HTTP server reads them.
pub fn head(data: &[u8]) {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));
    let Some((piece, said)) = data.split_first() else {
        return;
    };
    let whole = RUNTIME.block_on(sandbox::fuzzing::head(said, usize::MAX));
    let pieces = RUNTIME.block_on(sandbox::fuzzing::head(said, usize::from(*piece) * 16));
    assert_eq!(pieces, whole, "it makes a difference how it came");
    let end = said
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4);
    match whole {
        Ok(length) => assert!(Some(length) == end && length <= MOST_HEAD),
        Err(refusal) => {
            assert!(end.is_none_or(|end| end > MOST_HEAD), "a head was not found");
            assert!(refusals().contains(&refusal), "the refusal has words of its own");
        }
    }
    let Some((method, target)) = sandbox::fuzzing::line(said) else {
        return;
    };
    let mut room = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut room);
    if request.parse(said).is_ok() {
        assert_eq!(request.method.map(str::as_bytes), Some(method));
        assert_eq!(request.path.map(str::as_bytes), Some(target));
    }
    if let Some((host, port)) = authority(target, Some(80))
        && let Ok(other) = http::uri::Authority::try_from(target)
    {
        assert_eq!(other.host().trim_end_matches('.').to_ascii_lowercase(), host);
        assert_eq!(other.port_u16().unwrap_or(80), port);
    }
}

/// Addresses and ports stand where IP has them, the end of a packet that was cut off changes nothing, and what is remembered
/// of conversations is bounded. The input: packets, each after its length.
pub fn tap(data: &[u8]) {
    let mut conversations = Conversations::default();
    let mut left = data;
    while let Some((length, rest)) = left.split_first() {
        let (bytes, others) = rest.split_at(usize::from(*length).min(rest.len()));
        left = others;
        let new = conversations.is_new(bytes);
        let Some((is_udp, from, to)) = packet(bytes) else {
            assert_eq!(new, None);
            continue;
        };
        match bytes[0] >> 4 {
            4 => {
                assert_eq!(
                    from.ip(),
                    IpAddr::from(<[u8; 4]>::try_from(&bytes[12..16]).expect("four bytes"))
                );
                assert_eq!(
                    to.ip(),
                    IpAddr::from(<[u8; 4]>::try_from(&bytes[16..20]).expect("four bytes"))
                );
                assert_eq!(bytes[9], if is_udp { 17 } else { 6 });
                let ports = &bytes[usize::from(bytes[0] & 15) * 4..];
                assert_eq!(
                    ports[..4],
                    [from.port().to_be_bytes(), to.port().to_be_bytes()].concat()
                );
            }
            _ => {
                assert_eq!(bytes[0] >> 4, 6);
                assert_eq!(
                    from.ip(),
                    IpAddr::from(<[u8; 16]>::try_from(&bytes[8..24]).expect("sixteen bytes"))
                );
                assert_eq!(
                    to.ip(),
                    IpAddr::from(<[u8; 16]>::try_from(&bytes[24..40]).expect("sixteen bytes"))
                );
            }
        }
        assert!(is_udp || new == Some(true), "a refusal is always told");
        if is_udp && (from.port() == 53 || to.port() == 53) {
            assert_eq!(new, Some(false), "the resolver has records of its own");
        }
        if let Some(shorter) = packet(&bytes[..bytes.len() - 1]) {
            assert_eq!(shorter, (is_udp, from, to), "the end of a packet changes its beginning");
        }
    }
}
