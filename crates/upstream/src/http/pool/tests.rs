use hyper_rustls::HttpsConnectorBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use super::*;

/// A server that answers by the book, and what it saw.
struct Peer {
    pool: Pool,
    /// The number of the connection over which each request came.
    asked: mpsc::UnboundedReceiver<usize>,
    /// The number of each connection that the client closed.
    closed: mpsc::UnboundedReceiver<usize>,
    close: Arc<Notify>,
}

/// What the server does with one request: what it writes, and what then.
type Step = (&'static [u8], Then);

enum Then {
    Go,
    Close,
    CloseWhenTold,
}

use Then::{Close, CloseWhenTold, Go};

async fn peer<const STEPS: usize>(script: [Step; STEPS]) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}/mcp", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let (tell_asked, asked) = mpsc::unbounded_channel();
    let (tell_closed, closed) = mpsc::unbounded_channel();
    let close = Arc::new(Notify::new());
    let told = close.clone();
    tokio::spawn(async move {
        let mut script = script.into_iter();
        for connection in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            loop {
                if stream.read(&mut request).await.unwrap_or(0) == 0 {
                    let _ = tell_closed.send(connection);
                    break;
                }
                let _ = tell_asked.send(connection);
                let Some((answer, then)) = script.next() else { return };
                stream.write_all(answer).await.unwrap();
                match then {
                    Go => {}
                    Close => break,
                    CloseWhenTold => {
                        told.notified().await;
                        break;
                    }
                }
            }
        }
    });
    let config = rustls::ClientConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(HttpConnector::new());
    Peer {
        pool: Pool::new(connector, server),
        asked,
        closed,
        close,
    }
}

fn uri(listener: &TcpListener) -> Uri {
    format!("http://{}/mcp", listener.local_addr().unwrap())
        .parse()
        .unwrap()
}

impl Peer {
    async fn ask(&self) -> Result<Response<ResponseBody>, Failure> {
        let mut request = Request::new(Full::new(Bytes::from_static(b"{}")));
        request.headers_mut().insert("host", "peer".parse().unwrap());
        self.pool.send(request).await
    }

    /// The whole body of an answer.
    async fn read(&self) -> String {
        let mut body = self.ask().await.unwrap().into_body();
        let mut whole = Vec::new();
        while let Some(piece) = body.piece().await.unwrap() {
            whole.extend_from_slice(&piece);
        }
        String::from_utf8(whole).unwrap()
    }

    fn waiting(&self) -> usize {
        self.pool.0.idle().connections.len()
    }

    /// Puts up connections that were closed: more than a task may look at before others have their turn, after which
    /// sockets tell it nothing.
    async fn strand(&self) {
        const MANY: usize = 300;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let elsewhere = Pool::new(self.pool.0.connector.clone(), uri(&listener));
        for _ in 0..MANY {
            let (connection, accepted) = tokio::join!(elsewhere.0.open(), listener.accept());
            self.pool.0.put(connection.unwrap());
            drop(accepted.unwrap());
        }
        // The runtime hears of all of them when it rests.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(self.waiting(), MANY);
    }

    /// The server closes the connection that waits, and it can be seen here.
    async fn close(&self) {
        assert_eq!(self.waiting(), 1);
        self.close.notify_one();
        while self
            .pool
            .0
            .idle()
            .connections
            .iter_mut()
            .any(|(connection, _)| connection.is_free())
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

const SEVEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nseven";
const HALF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhalf";
const NOTHING: &[u8] = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn a_connection_is_used_again() {
    let pieces: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nse\r\n3\r\nven\r\n0\r\n\r\n";
    let mut peer = peer([(SEVEN, Go), (pieces, Go), (NOTHING, Go), (SEVEN, Go)]).await;
    assert_eq!(peer.read().await, "seven");
    assert_eq!(peer.read().await, "seven");
    assert_eq!(peer.read().await, "");
    assert_eq!(peer.read().await, "seven");
    for _ in 0..4 {
        assert_eq!(peer.asked.recv().await, Some(0));
    }
}

#[tokio::test]
async fn a_connection_is_used_again_when_nobody_reads_an_answer_that_is_here() {
    let mut peer = peer([(NOTHING, Go), (SEVEN, Go), (SEVEN, Go)]).await;
    drop(peer.ask().await.unwrap());
    drop(peer.ask().await.unwrap());
    assert_eq!(peer.read().await, "seven");
    for _ in 0..3 {
        assert_eq!(peer.asked.recv().await, Some(0));
    }
}

#[tokio::test]
async fn calls_at_once_have_a_connection_each() {
    let peer = peer([(SEVEN, Go)]).await;
    let first = peer.ask().await.unwrap();
    assert!(peer.pool.0.take().is_none(), "it is in use");
    drop(first);
    assert_eq!(peer.waiting(), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_meanwhile_is_not_used() {
    let mut peer = peer([(SEVEN, CloseWhenTold), (SEVEN, Go)]).await;
    assert_eq!(peer.read().await, "seven");
    peer.close().await;
    assert_eq!(peer.read().await, "seven");
    assert_eq!((peer.asked.recv().await, peer.asked.recv().await), (Some(0), Some(1)));
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_closed() {
    let peer = peer([(SEVEN, CloseWhenTold)]).await;
    assert_eq!(peer.read().await, "seven");
    assert!(peer.pool.0.close_stale(), "it is still good");
    peer.close().await;
    assert!(!peer.pool.0.close_stale());
    assert_eq!(peer.waiting(), 0);
}

#[tokio::test]
async fn however_many_connections_were_closed_none_of_them_is_used() {
    let peer = peer([(SEVEN, Go)]).await;
    peer.strand().await;
    assert_eq!(peer.read().await, "seven");
    assert_eq!(peer.waiting(), 1);
}

#[tokio::test]
async fn however_many_connections_were_closed_one_look_closes_them() {
    let peer = peer([]).await;
    peer.strand().await;
    assert!(!peer.pool.0.close_stale());
    assert_eq!(peer.waiting(), 0);
}

#[tokio::test]
async fn a_connection_that_the_server_wants_closed_is_not_kept() {
    let last: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nseven";
    let mut peer = peer([(last, Close), (SEVEN, Go)]).await;
    assert_eq!(peer.read().await, "seven");
    assert_eq!(peer.waiting(), 0);
    assert_eq!(peer.read().await, "seven");
    assert_eq!((peer.asked.recv().await, peer.asked.recv().await), (Some(0), Some(1)));
}

/// What comes after an answer would be taken for the answer to the next request.
#[tokio::test]
async fn a_connection_with_an_answer_that_nobody_asked_for_is_not_used() {
    let two: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsevenHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged";
    let mut peer = peer([(two, Go), (SEVEN, Go)]).await;
    assert_eq!(peer.read().await, "seven");
    assert_eq!(peer.read().await, "seven");
    assert_eq!((peer.asked.recv().await, peer.asked.recv().await), (Some(0), Some(1)));
    assert_eq!(peer.closed.recv().await, Some(0));
}

#[tokio::test]
async fn an_answer_that_is_given_up_closes_its_connection() {
    let mut peer = peer([(HALF, Go)]).await;
    let mut body = peer.ask().await.unwrap().into_body();
    assert_eq!(body.piece().await.unwrap().unwrap(), "half");
    assert_eq!(body.at_least(), 496);
    drop(body);
    assert_eq!(peer.waiting(), 0);
    assert_eq!(peer.closed.recv().await, Some(0));
}

#[tokio::test]
async fn a_request_that_is_given_up_closes_its_connection() {
    let mut peer = peer([(b"HTTP/1.1 200", Go)]).await;
    let given_up = tokio::time::timeout(Duration::from_millis(20), peer.ask()).await;
    assert!(given_up.is_err());
    assert_eq!(peer.closed.recv().await, Some(0));
    assert_eq!(peer.waiting(), 0);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_told_from_one_that_ends() {
    let peer = peer([(HALF, Close), (b"HTTP/1.1 200", Close)]).await;
    let mut body = peer.ask().await.unwrap().into_body();
    assert_eq!(body.piece().await.unwrap().unwrap(), "half");
    assert!(matches!(body.piece().await, Err(Failure::Broken(_))));
    drop(body);
    assert_eq!(peer.waiting(), 0);
    assert!(matches!(peer.ask().await, Err(Failure::Broken(_))));
}

#[tokio::test]
async fn a_server_that_is_not_there_cannot_be_reached() {
    let mut peer = peer([]).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Arc::get_mut(&mut peer.pool.0).unwrap().server = uri(&gone);
    drop(gone);
    let failure = peer.ask().await.err().unwrap();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
    assert_eq!(failure.executed(), Some(false));
}
