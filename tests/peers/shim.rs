//! The suite has no credential and the gateway no anonymous mode: this stands between them, adds `Authorization` and touches
//! nothing else. Both bodies are streamed; whoever hangs up is noticed by the other side.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// What it adds and where it leads.
struct Way {
    gateway: SocketAddr,
    path: Uri,
    authorization: HeaderValue,
}

/// Opens it on a port of its own and gives the URL for the suite.
pub(super) async fn open(gateway: SocketAddr, path: &str, token: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let way = Arc::new(Way {
        gateway,
        path: path.parse().unwrap(),
        authorization: format!("Bearer {token}").parse().unwrap(),
    });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let way = Arc::clone(&way);
            let service = service_fn(move |request| pass_on(Arc::clone(&way), request));
            let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move { drop(serving.await) });
        }
    });
    url
}

async fn pass_on(way: Arc<Way>, mut request: Request<Incoming>) -> hyper::Result<Response<Incoming>> {
    *request.uri_mut() = way.path.clone();
    request.headers_mut().insert(AUTHORIZATION, way.authorization.clone());
    let stream = TcpStream::connect(way.gateway).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move { drop(connection.await) });
    sender.send_request(request).await
}
