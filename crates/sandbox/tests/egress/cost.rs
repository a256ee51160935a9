//! What a small request costs by each way. Prints; run with `--ignored --nocapture`, with `--release` for figures.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::world::{PUBLIC, World, hello, world};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n";

/// Median and minimum of many runs.
fn measure(what: &str, mut run: impl FnMut()) {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..400 {
        let start = Instant::now();
        run();
        times.push(start.elapsed());
    }
    times.sort();
    println!("{what:46} min {:>9.1?} median {:>9.1?}", times[0], times[200]);
}

fn first_answer(mut stream: TcpStream, words: &[u8]) {
    stream.write_all(words).unwrap();
    stream.read_exact(&mut [0; 15]).unwrap();
}

fn bulk(what: &str, mut stream: TcpStream) {
    let block = vec![0; 1 << 16];
    let start = Instant::now();
    for _ in 0..4096 {
        stream.write_all(&block).unwrap();
    }
    let rate = 256.0 / start.elapsed().as_secs_f64();
    println!("{what:46} {rate:.0} MiB/s");
}

#[test]
#[ignore = "prints figures; nothing to check"]
fn a_small_request_by_each_way() {
    world(&["good.test", "good.test:80", "good.test:9"], &[], |world: &World| {
        measure("direct: connect, hello, answer", || {
            first_answer(TcpStream::connect((PUBLIC, 443)).unwrap(), &hello(Some("good.test")));
        });
        let address = world.ask("good.test", 1).unwrap().1.unwrap();
        world.inside(|| {
            measure("CONNECT: the same", || {
                let mut stream = TcpStream::connect(crate::world::PROXY).unwrap();
                stream.write_all(b"CONNECT good.test:443 HTTP/1.1\r\n\r\n").unwrap();
                stream.read_exact(&mut [0; 39]).unwrap();
                first_answer(stream, &hello(Some("good.test")));
            });
            measure("transparent: the same, without DNS", || {
                first_answer(TcpStream::connect((address, 443)).unwrap(), &hello(Some("good.test")));
            });
            measure("transparent: the same, with DNS", || {
                let found = crate::world::ask("9.9.9.9:53".parse().unwrap(), "good.test", 1)
                    .unwrap()
                    .1
                    .unwrap();
                first_answer(TcpStream::connect((found, 443)).unwrap(), &hello(Some("good.test")));
            });
            measure("plain HTTP by proxy: GET, whole answer", || {
                let mut stream = TcpStream::connect(crate::world::PROXY).unwrap();
                stream
                    .write_all(b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n")
                    .unwrap();
                stream.read_to_end(&mut Vec::new()).unwrap();
            });
            measure("denied CONNECT", || {
                let mut stream = TcpStream::connect(crate::world::PROXY).unwrap();
                stream.write_all(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n").unwrap();
                stream.read_exact(&mut [0; 12]).unwrap();
            });
        });
        measure("direct: plain GET", || {
            first_answer(TcpStream::connect((PUBLIC, 80)).unwrap(), REQUEST)
        });
        bulk("bulk, direct", TcpStream::connect((PUBLIC, 9)).unwrap());
        bulk("bulk, by CONNECT", world.tunnel("good.test:9"));
    });
}
