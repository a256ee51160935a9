//! Reads the server name out of a TLS `ClientHello` (RFC 8446 §4.1.2, RFC 6066 §3). Written by hand: nothing but the
//! name is wanted, and a library that acts as a TLS server would also judge versions and ciphers that are none of our
//! business. What is not plainly a `ClientHello` with at most one name is not TLS to us.
//!
//! Known limit: of an encrypted `ClientHello` only the outer name can be seen.

use crate::egress::host::Host;

/// What the first bytes of a connection are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Hello {
    /// A beginning; this many bytes are needed to read on.
    Short(usize),
    /// A `ClientHello` for this host.
    For(Host),
    /// A `ClientHello` for something that is no host name.
    Misnamed,
    /// A `ClientHello` without a name.
    Nameless,
    /// Something else.
    NotTls,
}

/// Reads the first bytes of a connection.
pub(crate) fn read(bytes: &[u8]) -> Hello {
    match message(bytes) {
        Gathered::Short(needed) => Hello::Short(needed),
        Gathered::NotTls => Hello::NotTls,
        Gathered::Whole(body) => match server_name(&body) {
            Some(Name::Given(name)) => Host::parse(&name).map_or(Hello::Misnamed, Hello::For),
            Some(Name::Absent) => Hello::Nameless,
            None => Hello::NotTls,
        },
    }
}

enum Gathered {
    Short(usize),
    NotTls,
    Whole(Vec<u8>),
}

/// Joins the fragments of the first handshake message; it may be spread over several records.
fn message(bytes: &[u8]) -> Gathered {
    let mut body = Vec::new();
    let mut taken = 0;
    for _ in 0..MOST_RECORDS {
        let rest = bytes.get(taken..).unwrap_or_default();
        // What is not TLS is known by its first byte; who waits for an answer after it must not be made to wait.
        match rest.first() {
            None => return Gathered::Short(taken + 1),
            Some(kind) if *kind != HANDSHAKE => return Gathered::NotTls,
            Some(_) => {}
        }
        let Some([_, major, _, high, low]) = rest.first_chunk::<5>() else {
            return Gathered::Short(taken + 5);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *major != 3 || length == 0 || length > LONGEST_RECORD {
            return Gathered::NotTls;
        }
        let Some(fragment) = rest.get(5..5 + length) else {
            return Gathered::Short(taken + 5 + length);
        };
        body.extend_from_slice(fragment);
        taken += 5 + length;
        let Some([kind, high, middle, low]) = body.first_chunk::<4>() else {
            continue;
        };
        let length = usize::try_from(u32::from_be_bytes([0, *high, *middle, *low])).unwrap_or(usize::MAX);
        if *kind != CLIENT_HELLO || length > LONGEST_HELLO {
            return Gathered::NotTls;
        }
        if body.len() == 4 + length {
            return Gathered::Whole(body.split_off(4));
        }
        // A second message in the record of the first has no place here, and could be read otherwise by the far side.
        if body.len() > 4 + length {
            return Gathered::NotTls;
        }
    }
    Gathered::NotTls
}

enum Name {
    Given(Vec<u8>),
    Absent,
}

/// The name in the body of a `ClientHello`; `None` if the body is malformed or names more than one server.
fn server_name(body: &[u8]) -> Option<Name> {
    let mut hello = Cursor(body);
    hello.take(2 + 32)?; // version, random
    let session = hello.short_vector()?;
    let suites = hello.long_vector()?;
    let compressions = hello.short_vector()?;
    if session.len() > 32 || suites.is_empty() || compressions.is_empty() {
        return None;
    }
    if hello.0.is_empty() {
        return Some(Name::Absent);
    }
    let mut extensions = Cursor(hello.long_vector()?);
    if !hello.0.is_empty() {
        return None;
    }
    let mut found = Name::Absent;
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.long_vector()?;
        if kind == SERVER_NAME {
            if matches!(found, Name::Given(_)) {
                return None;
            }
            found = Name::Given(only_name(content)?);
        }
    }
    Some(found)
}

/// The name in a `server_name` extension, which must hold exactly one, of type `host_name`.
fn only_name(content: &[u8]) -> Option<Vec<u8>> {
    let mut content = Cursor(content);
    let mut list = Cursor(content.long_vector()?);
    let kind = list.take(1)?;
    let name = list.long_vector()?;
    (kind == [0] && list.0.is_empty() && content.0.is_empty()).then(|| name.to_vec())
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }

    fn short_vector(&mut self) -> Option<&'a [u8]> {
        let length = *self.take(1)?.first()?;
        self.take(usize::from(length))
    }

    fn long_vector(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::from(length))
    }
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const LONGEST_RECORD: usize = 1 << 14;

/// Real ones have 0.2 to 2 KiB, with an encrypted one inside perhaps 4.
const LONGEST_HELLO: usize = 1 << 14;

/// Real ones come in one record, rarely two.
const MOST_RECORDS: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn long(content: &[u8]) -> Vec<u8> {
        [&u16::try_from(content.len()).unwrap().to_be_bytes(), content].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [kind.to_be_bytes().to_vec(), long(content)].concat()
    }

    fn sni(name: &[u8]) -> Vec<u8> {
        extension(0, &long(&[&[0][..], &long(name)].concat()))
    }

    fn body(extensions: Option<Vec<u8>>) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend_from_slice(&[7; 32]);
        body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
        if let Some(extensions) = extensions {
            body.extend_from_slice(&long(&extensions));
        }
        body
    }

    fn handshake(body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1, length[1], length[2], length[3]], body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message
            .chunks(size)
            .flat_map(|chunk| [&[22, 3, 1][..], &long(chunk)].concat())
            .collect()
    }

    fn hello(name: &[u8]) -> Vec<u8> {
        let extensions = [extension(43, &[2, 3, 4]), sni(name), extension(0xfe0d, &[9; 100])].concat();
        records(&handshake(&body(Some(extensions))), 1 << 14)
    }

    fn host(name: &str) -> Hello {
        Hello::For(Host::parse(name.as_bytes()).unwrap())
    }

    #[test]
    fn the_name_is_read_whole_and_in_fragments() {
        assert_eq!(read(&hello(b"good.test")), host("good.test"));
        assert_eq!(read(&hello(b"GOOD.test")), host("good.test"));
        let message = handshake(&body(Some(sni(b"good.test"))));
        for size in [5, 7, 20, 60] {
            assert_eq!(
                read(&records(&message, message.len().div_ceil(16).max(size))),
                host("good.test")
            );
        }
        let mut followed = hello(b"good.test");
        followed.extend_from_slice(&[20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 2, 9, 9]);
        assert_eq!(read(&followed), host("good.test"));
    }

    #[test]
    fn every_beginning_asks_for_more_and_for_no_more_than_there_is() {
        let whole = hello(b"good.test");
        for length in 0..whole.len() {
            let Hello::Short(needed) = read(&whole[..length]) else {
                panic!("{length}")
            };
            assert!(needed > length && needed <= whole.len(), "{length} {needed}");
        }
    }

    #[test]
    fn a_hello_without_a_name_or_with_a_strange_one_is_told_apart() {
        let with = |extensions: Option<Vec<u8>>| read(&records(&handshake(&body(extensions)), 1 << 14));
        assert_eq!(with(None), Hello::Nameless);
        assert_eq!(with(Some(vec![])), Hello::Nameless);
        assert_eq!(with(Some(extension(43, &[2, 3, 4]))), Hello::Nameless);
        for name in [&b"good.test\0"[..], b"", b"127.0.0.1", b"good.test\0.evil.test", b"*"] {
            assert_eq!(with(Some(sni(name))), Hello::Misnamed);
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_not_tls() {
        let with = |extensions: Vec<u8>| read(&records(&handshake(&body(Some(extensions))), 1 << 14));
        assert_eq!(with([sni(b"good.test"), sni(b"evil.test")].concat()), Hello::NotTls);
        let two = [&[0][..], &long(b"good.test"), &[0], &long(b"evil.test")].concat();
        assert_eq!(with(extension(0, &long(&two))), Hello::NotTls);
        assert_eq!(with([sni(b"good.test"), vec![1]].concat()), Hello::NotTls);
        let twice = [
            handshake(&body(Some(sni(b"good.test")))),
            handshake(&body(Some(sni(b"evil.test")))),
        ]
        .concat();
        assert_eq!(read(&records(&twice, 1 << 14)), Hello::NotTls);
        assert_eq!(
            read(&records(&handshake(&body(Some(sni(b"good.test")))), 1)),
            Hello::NotTls
        );
    }

    #[test]
    fn other_protocols_are_not_tls_at_their_first_byte() {
        for bytes in [
            &b"G"[..],
            b"SSH-2.0",
            b"\x80\x2e\x01\x00\x02",
            b"\x16\x02\x00\x00\x10",
            b"\x16\x03\x01\x00\x00",
            b"\x16\x03\x01\x00\x04\x02\0\0\0",
            b"\x16\x03\x01\xff\xff",
        ] {
            assert_eq!(read(bytes), Hello::NotTls, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = read(&bytes);
            let _ = read(&records(&handshake(&bytes), 200));
            let _ = read(&records(&handshake(&body(Some(bytes.clone()))), 300));
        }

        #[test]
        fn a_damaged_hello_never_turns_into_another_name(at in any::<prop::sample::Index>(), with in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let mut bytes = hello(b"good.test");
            let place = at.index(bytes.len());
            bytes[place] = with;
            if let Hello::For(found) = read(&bytes) {
                prop_assert_eq!(found.as_str().len(), 9);
            }
            bytes.truncate(cut.index(bytes.len()));
            let _ = read(&bytes);
        }
    }
}
