//! Serves HTTP the way the gateway's listener does (`crates/gateway/src/edge/listen.rs`): the same
//! connection builder with the same timers, so that what is left to compare is the work per call.

use std::convert::Infallible;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};

const HEAD_DEADLINE: Duration = Duration::from_secs(10);
const LARGEST_HEAD: usize = 64 * 1024;

/// Binds a free port of the loopback, says which on standard output, and serves until whoever
/// started this process closes its standard input.
pub(crate) async fn serve<H, F, B>(handle: H) -> Result<()>
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    writeln!(std::io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
    let mut ended = std::pin::pin!(end_of_input());
    loop {
        tokio::select! {
            () = &mut ended => return Ok(()),
            accepted = listener.accept() => {
                tokio::spawn(converse(accepted?.0, handle.clone()));
            }
        }
    }
}

async fn converse<H, F, B>(stream: TcpStream, handle: H)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let _ = stream.set_nodelay(true);
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(LARGEST_HEAD);
    server.http2().timer(TokioTimer::new()).max_concurrent_streams(128);
    let service = service_fn(move |request| {
        let answer = handle(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    // A generator that is done hangs up; that is no fault.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn end_of_input() {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut scrap = [0];
        while std::io::stdin().read(&mut scrap).is_ok_and(|read| read > 0) {}
        let _ = tell.send(());
    });
    let _ = told.await;
}
