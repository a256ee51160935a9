//! Plain HTTP: row E8 and the head of E11.

use std::io::{Read, Write};

use portreeve_sandbox::Event::{Connect, Http};
use portreeve_sandbox::Reason;
use portreeve_sandbox::Verdict::{Allowed, Blocked};

use crate::world::{PROXY, world};

fn text(said: Vec<Vec<u8>>) -> String {
    String::from_utf8(said.concat()).unwrap().to_ascii_lowercase()
}

#[test]
fn a_request_is_built_anew_and_its_answer_comes_back() {
    world(&["good.test:80", "good.test:8080"], &[], |world| {
        let answer = world.proxy(
            b"POST http://Good.Test/path?q=1 HTTP/1.1\r\nHost: good.test\r\nContent-Length: 4\r\nProxy-Authorization: Basic x\r\n\
              Connection: keep-alive, X-Mine\r\nX-Mine: hop\r\nX-End: to-end\r\nTE: trailers\r\nUpgrade: h2c\r\n\r\nbody",
        );
        assert!(
            answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"),
            "{answer}"
        );
        assert!(
            answer.to_ascii_lowercase().contains("x-far: side") && answer.contains("close"),
            "{answer}"
        );
        world.expect(Http, Allowed, "Good.Test:80", Reason::Allowlisted);
        let said = text(world.internet.said());
        assert!(
            said.starts_with("post /path?q=1 http/1.1\r\n") && said.ends_with("\r\n\r\nbody"),
            "{said}"
        );
        assert!(
            said.contains("host: good.test\r\n") && said.contains("x-end: to-end\r\n"),
            "{said}"
        );
        for header in ["proxy-", "x-mine", "te:", "upgrade", "connection"] {
            assert!(!said.contains(header), "{header} in {said}");
        }
        let answer = world.proxy(b"GET http://good.test:8080 HTTP/1.0\r\n\r\n");
        assert!(answer.contains(" 200 OK"), "{answer}");
        world.expect(Http, Allowed, "good.test:8080", Reason::Allowlisted);
        let said = text(world.internet.said());
        assert!(
            said.starts_with("get / http/1.1\r\n") && said.contains("host: good.test:8080\r\n"),
            "{said}"
        );
    });
}

// E8
#[test]
fn another_host_header_is_corrected_and_recorded() {
    world(&["good.test:80"], &[], |world| {
        for host in ["evil.test", "good.test:81", "", "good.test\r\nHost: evil.test"] {
            let request = format!("GET http://good.test/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert!(world.proxy(request.as_bytes()).starts_with("HTTP/1.1 200 OK"), "{host}");
            let said = text(world.internet.said());
            assert!(
                said.contains("host: good.test\r\n") && !said.contains("evil") && !said.contains(":81"),
                "{said}"
            );
        }
        world.expect(Http, Allowed, "good.test:80", Reason::HostHeaderMismatch);
    });
}

// E8
#[test]
fn other_schemes_are_denied() {
    world(&["good.test", "good.test:80"], &[], |world| {
        for target in [
            "https://good.test/",
            "file:///etc/passwd",
            "ftp://good.test/",
            "*",
            "//good.test/",
            "good.test",
        ] {
            let answer = world.proxy(format!("GET {target} HTTP/1.1\r\nHost: good.test\r\n\r\n").as_bytes());
            assert!(
                answer.starts_with("HTTP/1.1 400 ") && answer.contains("(not_a_proxy_request)"),
                "{target}: {answer}"
            );
        }
        world.expect(Http, Blocked, PROXY, Reason::NotAProxyRequest);
        world.nothing_arrived();
    });
}

// E8
#[test]
fn a_second_request_on_the_connection_is_not_sent() {
    world(&["good.test:80"], &[], |world| {
        let twice = b"GET http://good.test/one HTTP/1.1\r\nHost: good.test\r\n\r\nGET http://evil.test/two HTTP/1.1\r\nHost: evil.test\r\n\r\n";
        let answer = world.proxy(twice);
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        let said = text(world.internet.said());
        assert!(said.contains("/one") && !said.contains("/two"), "{said}");
        // After the answer the connection is over.
        let mut stream = world.connect(PROXY).unwrap();
        stream
            .write_all(b"GET http://good.test/one HTTP/1.1\r\nHost: good.test\r\n\r\n")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let _ = stream.write_all(b"GET http://good.test/two HTTP/1.1\r\nHost: good.test\r\n\r\n");
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
        assert!(!text(world.internet.said()).contains("/two"));
    });
}

#[test]
fn through_a_tunnel_and_transparently_the_host_must_be_the_one_of_the_connection() {
    world(&["good.test:80"], &[], |world| {
        let (_, address) = world.ask("good.test", 1).unwrap();
        let place = format!("{}:80", address.unwrap());
        for (request, allowed) in [
            ("GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", true),
            ("GET / HTTP/1.0\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", false),
            ("GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n", false),
            ("CONNECT evil.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: good.test\r\nbad header\r\n\r\n", false),
            ("SSH-2.0-x\r\n\r\n", false),
        ] {
            let mut tunnel = world.tunnel("good.test:80");
            tunnel.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            let _ = tunnel.read_to_end(&mut answer);
            for answer in [answer, world.say(&place, request.as_bytes())] {
                assert_eq!(
                    answer.windows(7).any(|window| window == b" 200 OK"),
                    allowed,
                    "{request}"
                );
            }
            assert_eq!(world.internet.said().len(), if allowed { 2 } else { 0 }, "{request}");
        }
        for event in [Connect, Http] {
            world.expect(event, Allowed, "good.test:80", Reason::Allowlisted);
            world.expect(event, Blocked, "good.test:80", Reason::HostHeaderMismatch);
            world.expect(event, Blocked, "good.test:80", Reason::NotAProxyRequest);
        }
    });
}

// E11
#[test]
fn a_head_that_is_too_long_is_closed_with_a_record() {
    world(&["good.test", "good.test:80"], &[], |world| {
        let long = "x".repeat(20_000);
        for (request, event, place) in [
            (
                format!("CONNECT good.test:443 HTTP/1.1\r\nX: {long}\r\n\r\n"),
                Connect,
                "good.test:443",
            ),
            (
                format!("GET http://good.test/ HTTP/1.1\r\nX: {long}\r\n\r\n"),
                Http,
                "good.test:80",
            ),
            (
                format!("GET http://good.test/{long} HTTP/1.1\r\n\r\n"),
                Http,
                "good.test:80",
            ),
            (format!("GET {long}"), Http, PROXY),
        ] {
            let answer = world.proxy(request.as_bytes());
            assert!(
                answer.starts_with("HTTP/1.1 431 ") && answer.contains("(header_too_large)"),
                "{answer}"
            );
            if place != "good.test:80" || request.contains("X:") {
                world.expect(event, Blocked, place, Reason::HeaderTooLarge);
            }
        }
        let mut tunnel = world.tunnel("good.test:80");
        tunnel
            .write_all(format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n").as_bytes())
            .unwrap();
        world.expect(Connect, Blocked, "good.test:80", Reason::HeaderTooLarge);
        assert_eq!(world.internet.said(), Vec::<Vec<u8>>::new());
    });
}
