//! The control plane: one door for the network, which identifies before it reads, and one for the commands
//! that hold the state directory's lock.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use ledger::{Event, LedgerDown, Note};
use vocabulary::{Clock, ReasonCode};

use crate::answer::Refusal;
use crate::api;
use crate::authenticate::{Operator, Unidentified, identify};
use crate::flood::{Flood, Fold, Turn, source};
use crate::ports::{Ports, Recorder};
use crate::rate::Rate;

/// Whether a request is addressed to us: the same rule for `Host` and `Origin` as on the data plane.
pub type HostRule = Arc<dyn Fn(&Uri, &HeaderMap) -> bool + Send + Sync>;

/// The admin API over its ports. Clones share everything.
#[derive(Clone)]
pub struct ControlPlane(Arc<Inner>);

struct Inner {
    ports: Ports,
    recorder: Arc<dyn Recorder>,
    clock: Clock,
    flood: Flood,
    rate: Rate,
    router: Router,
}

impl ControlPlane {
    /// Connects the API to its ports; changes and refusals go to `recorder`.
    #[must_use]
    pub fn new(ports: Ports, recorder: Arc<dyn Recorder>, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            ports,
            recorder,
            clock,
            flood: Flood::default(),
            rate: Rate::default(),
            router: api::router(),
        }))
    }

    /// Answers a request from the network. Host and operator are checked by its head alone; the body of a
    /// request that fails there is never read.
    pub async fn answer<B>(&self, request: Request<B>, address: IpAddr, hosts: &HostRule) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        if !hosts(request.uri(), request.headers()) {
            let message = "the request is addressed to another host or comes from a foreign page";
            let (status, code) = (StatusCode::FORBIDDEN, ReasonCode::DenyOrigin);
            return self.refuse((address, UNAUTHENTICATED), status, code, message).await;
        }
        let plane = self.clone();
        let headers = request.headers().clone();
        let identified =
            tokio::task::spawn_blocking(move || identify(&headers, plane.ports().tokens.as_ref(), plane.clock().now()));
        match identified.await {
            Ok(Ok(operator)) if self.0.rate.admits(operator.name()) => self.act(request, &operator).await,
            Ok(Ok(operator)) => self.refuse_haste((address, operator.name())).await,
            Ok(Err(Unidentified::Refused(code))) if self.0.rate.admits(&source(address).to_string()) => {
                let message = code.remedy().meaning;
                self.refuse((address, UNAUTHENTICATED), StatusCode::UNAUTHORIZED, code, message)
                    .await
            }
            Ok(Err(Unidentified::Refused(_))) => self.refuse_haste((address, UNAUTHENTICATED)).await,
            Ok(Err(Unidentified::Failed(error))) => Refusal::from(error).into_response(),
            Err(_) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the request failed").into_response(),
        }
    }

    /// Answers a request of an operator who is known already: one of this machine's commands while it holds
    /// the lock of the state directory.
    pub async fn act<B>(&self, request: Request<B>, operator: &Operator) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.clone());
        request.extensions_mut().insert(operator.clone());
        match TowerToHyperService::new(self.0.router.clone()).call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.0.ports
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Leaves an `admin` record.
    pub(crate) async fn record(&self, note: Note) -> Result<(), LedgerDown> {
        self.0.recorder.record(Event::Admin(note)).await
    }

    /// Leaves a record that was handed in.
    pub(crate) async fn record_event(&self, event: Event) -> Result<(), LedgerDown> {
        self.0.recorder.record(event).await
    }

    /// Refuses whoever asks too much in a short time.
    async fn refuse_haste(&self, who: (IpAddr, &str)) -> Response<Body> {
        let message = "too many requests in a short time; wait a second and ask again";
        let (status, code) = (StatusCode::TOO_MANY_REQUESTS, ReasonCode::DenyRateLimit);
        self.refuse(who, status, code, message).await
    }

    /// Refuses at the door; the record is written before the answer leaves.
    async fn refuse(
        &self,
        (address, actor): (IpAddr, &str),
        status: StatusCode,
        code: ReasonCode,
        message: &str,
    ) -> Response<Body> {
        let actor = actor.to_owned();
        let note = move |text: &str| Note::refused("admin.request", &actor, None, text);
        let recorded = match self.0.flood.count(address) {
            Turn::Record => self.record(note(&format!("{code}: from {address}"))).await.is_ok(),
            Turn::Share(told) => shared(told).await,
            Turn::Fold { source, at, tell, told } => {
                // On its own, so that the record is written even if this caller hangs up.
                let plane = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep_until(at).await;
                    let count = plane.0.flood.take(source);
                    let text = format!("{code}: {count} requests from {source} within a second");
                    let recorded = plane.record(note(&text)).await.is_ok();
                    // Nobody may be left who waits for it.
                    let _ = tell.send(if recorded { Fold::Recorded } else { Fold::Failed });
                });
                shared(told).await
            }
        };
        match recorded {
            true => Refusal::new(status, code.as_str(), message).into_response(),
            false => Refusal::from(LedgerDown::Disk).into_response(),
        }
    }
}

/// Whoever showed no credential that holds, in records.
const UNAUTHENTICATED: &str = "unauthenticated";

/// Waits for a record that somebody else writes.
async fn shared(mut told: tokio::sync::watch::Receiver<Fold>) -> bool {
    told.wait_for(|fold| *fold != Fold::Waiting)
        .await
        .is_ok_and(|fold| *fold == Fold::Recorded)
}
