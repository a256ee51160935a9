//! The two eras of the protocol: which one a request is of, and what each of its methods leads to.

pub(crate) mod version;
pub(crate) mod initialize;
pub(crate) mod begin;
pub(crate) mod legacy;
pub(crate) mod modern;

use mcp::Request;

use crate::context::Ended;
use crate::context::incoming::IncomingRequest;
use crate::gateway::Gateway;

/// One request, its method known: of either era.
pub(crate) async fn serve(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Ended {
    if version::is_modern(incoming.head.headers(), request.params()) {
        modern::serve(gateway, incoming, request).await
    } else {
        legacy::serve(gateway, incoming, request).await
    }
}
